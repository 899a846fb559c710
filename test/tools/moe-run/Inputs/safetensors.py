"""Makes, shows and damages safetensors files, with the standard library only.

  safetensors.py make FILE NAME:DTYPE:SHAPE[:ORDER] ...   tensors with data that depends on FILE's arguments alone
  safetensors.py integers FILE NAME INTEGER ...           an I32 tensor of rank 1
  safetensors.py show FILE                                header, one line per tensor, metadata
  safetensors.py raw FILE HEADER [DATA_BYTES [LENGTH]]    any header text; LENGTH overrides the header's length

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import json
import random
import struct
import sys

SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I32": 4, "U8": 1}


def read(path):
    """Name -> (dtype, shape, bytes), and the metadata."""
    with open(path, "rb") as file:
        blob = file.read()
    (length,) = struct.unpack("<Q", blob[:8])
    assert length % 8 == 0, "the header is not padded"
    header = json.loads(blob[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data = blob[8 + length :]
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        size = SIZES[entry["dtype"]]
        assert begin % size == 0, f"{name} is not aligned"
        for dim in entry["shape"]:
            size *= dim
        assert end - begin == size, f"{name} has a wrong size"
        tensors[name] = (entry["dtype"], entry["shape"], data[begin:end])
    assert sum(len(t[2]) for t in tensors.values()) == len(data), "bytes that belong to no tensor"
    return tensors, metadata


def write_raw(path, header, data, length=None):
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header) if length is None else length) + header + data)


def write(path, header, data):
    text = json.dumps(header).encode()
    write_raw(path, text + b" " * (-len(text) % 8), data)


def element(generator, dtype):
    x = generator.gauss(0, 1) * 2.0 ** generator.randrange(-20, 20)
    if dtype == "BF16":
        return struct.pack("<f", x)[2:]
    if dtype == "F32":
        return struct.pack("<f", x)
    if dtype == "F8_E8M0":
        return bytes([generator.randrange(100, 150)])
    if dtype == "F8_E4M3":
        return bytes([generator.randrange(0x7F) | generator.randrange(2) << 7])
    return bytes(generator.randrange(256) for _ in range(SIZES[dtype]))


def make(path, specs):
    generator = random.Random(" ".join(specs))
    header, metadata, data = {}, {}, b""
    for spec in specs:
        name, dtype, shape, *order = spec.split(":")
        dims = [int(d) for d in shape.split("x")]
        count = 1
        for dim in dims:
            count *= dim
        if order:
            metadata[f"{name}.order"] = f"[{order[0]}]"
        more = b"".join(element(generator, dtype) for _ in range(count))
        header[name] = {"dtype": dtype, "shape": dims, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    header["__metadata__"] = metadata
    write(path, header, data)


def show(path):
    tensors, metadata = read(path)
    for name, (dtype, shape, data) in tensors.items():
        print(f"{name}: {dtype} {shape} {len(data)} bytes")
    for key, value in metadata.items():
        print(f"metadata {key} = {value}")


if __name__ == "__main__":
    command, file_name, *rest = sys.argv[1:]
    if command == "make":
        make(file_name, rest)
    elif command == "integers":
        name, *integers = rest
        data = struct.pack(f"<{len(integers)}i", *map(int, integers))
        write(file_name, {name: {"dtype": "I32", "shape": [len(integers)], "data_offsets": [0, len(data)]}}, data)
    elif command == "show":
        show(file_name)
    elif command == "raw":
        write_raw(
            file_name,
            rest[0].encode("latin-1"),
            bytes(int(rest[1]) if len(rest) > 1 else 0),
            int(rest[2]) if len(rest) > 2 else None,
        )
    else:
        sys.exit(f"unknown command {command}")
