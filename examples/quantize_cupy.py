"""MXFP8 of a CuPy array on its GPU and its current stream. Needs a Hopper GPU, CuPy and the moe_opt package (./dev wheel)."""
import cupy
import moe_opt

x = cupy.random.standard_normal((4096, 5120), dtype=cupy.float32)
with cupy.cuda.Stream(non_blocking=True) as stream:
    stream.wait_event(cupy.cuda.get_current_stream().record())
    q, scales = moe_opt.quantize_mx(x)  # bytes: CuPy has no 8-bit floats
    stream.synchronize()
print(q.shape, q.dtype, scales.shape, "largest scale: 2 to the", int(scales.max()) - 127)
