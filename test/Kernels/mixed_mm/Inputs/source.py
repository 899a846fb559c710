"""Prints a function with the op scaled_grouped_mm.mixed_mm, of any shape but for n, m, k and more experts than one: source.py [KEY=VALUE...]. Keys and what they are without:

  format=i4  group=64  scales=bf16  zeros=0  x=bf16  out=bf16  bias=0  scaled=0  experts=0  layout=16x64  schedule=""  n=?  m=?  k=?  order=groups  constant=0

constant: weights, scales and zero points are. scaled: with a scale for each token, mixed_mm_scaled. order: of scales in memory: those of a group side by side, or with "rows" those of a row.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import sys

USUAL = dict(format="i4", group="64", scales="bf16", zeros="0", x="bf16", out="bf16", bias="0", scaled="0", experts="0", layout="16x64", schedule="", n="?", m="?", k="?", order="groups", constant="0")


def source(name="mixed_mm", **changes):
    """The function's text; values are strings."""
    given = USUAL | changes
    if given["format"] == "f4E2M1FN" and given["layout"] == "16x64":
        given["layout"] = "16x64_e2m1"
    if given["format"] == "f8E4M3FN":
        given.update(layout="1x16" if given["layout"] == "16x64" else given["layout"], group="32", scales="f8E8M0FNU")
    experts = {"0": "", "1": "?x"}.get(given["experts"], given["experts"] + "x")
    order = "affine_map<(e, n, j) -> (e, j, n)>" if experts else "affine_map<(n, j) -> (j, n)>"
    n, m = given["n"], given["m"]
    rows_of_tiles = given["layout"].startswith("16x64")
    w_rows = int(n) // 16 if n != "?" and rows_of_tiles else n
    w_element = "f8E4M3FN" if given["format"] == "f8E4M3FN" else "ui8"
    k = given["k"]
    chunks = k if k == "?" or not rows_of_tiles else -(-int(k) // 64)
    groups = "1" if given["group"] == "-1" else k if k == "?" else int(k) // int(given["group"])
    types = {
        "w": f"tensor<{experts}{w_rows}x{chunks}{'x512' if rows_of_tiles else ''}x{w_element}>",
        "scales": f"tensor<{experts}{n}x{groups}x{given['scales']}{', ' + order if given['order'] == 'groups' else ''}>",
        "x": f"tensor<{m}x{k}x{given['x']}>",
    }
    if given["zeros"] != "0":
        types = {"w": types["w"], "scales": types["scales"], "zeros": f"tensor<{experts}{n}x{groups}xui8, {order}>", "x": types["x"]}
    if given["scaled"] != "0":
        types["scales_x"] = f"tensor<{m}xf32>"
    if experts:
        types["offs"] = f"tensor<{experts}i32>"
    if given["bias"] != "0":
        types["bias"] = f"tensor<{experts}{n}x{given['out']}>"
    result = f"tensor<{m}x{n}x{given['out']}>"
    schedule = f", schedule = {{{given['schedule']}}}" if given["schedule"] else ""
    said = {name: " {moe.constant}" for name in ("w", "scales", "zeros") if given["constant"] != "0"}
    return f"""func.func @{name}({", ".join(f"%{name}: {type}{said.get(name, '')}" for name, type in types.items())}) -> {result} {{
  %out = "scaled_grouped_mm.mixed_mm{"_scaled" if "scales_x" in types else ""}{"_zeros" if "zeros" in types else ""}{"_bias" if "bias" in types else ""}"({", ".join("%" + name for name in types)})
      {{format = "{given['format']}", group_size = {given['group']} : i64, layout = "{given['layout']}"{schedule}}}
      : ({", ".join(types.values())}) -> {result}
  return %out : {result}
}}"""


if __name__ == "__main__":
    print(source(**dict(argument.split("=", 1) for argument in sys.argv[1:])))
