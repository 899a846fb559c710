"""MXFP8 of memory of cuda.core, on a stream of it. Needs a Hopper GPU, cuda.core 1 and the moe_opt package (./dev wheel)."""
from cuda.core import Device
import moe_opt

device = Device()
device.set_current()
stream, rows, columns = device.create_stream(), 4096, 5120
sizes = {"f32": (rows, columns), "f8E4M3FN": (rows, columns), "f8E8M0FNU": (rows, columns // 32)}
buffers = [device.allocate(rows * columns * 4, stream=stream) for _ in sizes]
buffers[0].fill(0, stream=stream)
tensors = [moe_opt.Memory(int(b.handle), shape, dtype, device.device_id) for b, (dtype, shape) in zip(buffers, sizes.items())]
moe_opt.load("quantize-row-2d-rceil-f32-f8E4M3FN")(tensors[0], out=tensors[1:], stream=stream)
stream.sync()
