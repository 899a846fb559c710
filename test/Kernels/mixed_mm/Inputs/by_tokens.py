"""The tiles of products of experts, by the tokens of each: by_tokens.py MOE-OPT [few] prints for some forms of weights from how many tokens on a tile has how many, in how many widths if not in
one, and whether tokens become f16 first; of few experts also how many warpgroups or panels it has, and how many CTAs divide its columns if not one.

SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""
import re
import subprocess
import sys

from source import source

few = "few" in sys.argv[2:]
EXPERTS, TOKENS = 64, range(1, 160) if few else range(1, 700)
MXFP4 = {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU"}
FEW_FORMS = {
    "MXFP4, 4 of 2048 rows": MXFP4 | {"experts": 4, "n": 2048}, "MXFP4, 8 of 2048 rows": MXFP4 | {"experts": 8, "n": 2048}, "MXFP4, 16 of 1536 rows": MXFP4 | {"experts": 16, "n": 1536},
    "MXFP4, 2 of 512 rows": MXFP4 | {"experts": 2, "n": 512}, "i4, 64, 4 of 2048 rows": {"experts": 4, "n": 2048}, "i4, 32, 12 of 3584 rows": {"experts": 12, "n": 3584, "group": 32},
    "ui4, 128, f16, 2 of 4096 rows": {"format": "ui4", "zeros": 1, "group": 128, "x": "f16", "scales": "f16", "out": "f16", "experts": 2}, "MXFP8, 4 of 2048 rows": {"format": "f8E4M3FN", "experts": 4, "n": 2048},
}  # fmt: skip
FORMS = FEW_FORMS if few else {
    "i4, 32": {"group": 32}, "i4, 32, 1008 rows": {"group": 32, "n": 1008}, "i4, 32, 1024 rows": {"group": 32, "n": 1024}, "i4, 32, few rows": {"group": 32, "n": 2032}, "i4, 64": {}, "i4, 64, few rows": {"n": 2032}, "i4, 64, few columns": {"k": 1472},
    "i4, 64, rows and columns enough": {"n": 2048, "k": 1536}, "i4, 32, few columns": {"group": 32, "k": 1472}, "i4, 128": {"group": 128}, "i4, 128, bias": {"group": 128, "bias": 1},
    "ui4, 32, zero points": {"format": "ui4", "zeros": 1, "group": 32}, "ui4, 128, zero points, f16": {"format": "ui4", "zeros": 1, "group": 128, "x": "f16", "scales": "f16", "out": "f16"},
    "MXFP4": {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU"}, "MXFP4, f16": {"format": "f4E2M1FN", "group": 32, "scales": "f8E8M0FNU", "x": "f16", "out": "f16"},
    "MXFP8": {"format": "f8E4M3FN"}, "MXFP8, rows": {"format": "f8E4M3FN", "order": "rows"},
}  # fmt: skip

for form, keys in FORMS.items():
    all_keys = {"n": 4096, "k": 2048, "experts": EXPERTS} | keys
    text = "".join(source(f"f{tokens}", **{name: str(value) for name, value in (all_keys | {"m": tokens * all_keys["experts"]}).items()}) for tokens in TOKENS)
    chosen = subprocess.run([sys.argv[1], "-", "--moe-expand-recipes", "--moe-select-schedule"], input=text, capture_output=True, text=True, check=True).stdout
    tiles = []
    for function in chosen.split("func.func")[1:]:
        fields = dict(re.findall(r"(\w+) = (\d+) :", re.search(r"schedule = {([^}]*tile_n[^}]*)}", function)[1]))
        tile = fields["tile_n"] + (f"/{fields['widths']}" if fields["widths"] != "1" else "") + (" f16" if "quantize_f16" in function else "")
        if few:
            tile += f" by {fields['panels']} panels" if fields["panels"] != "0" else f" by {fields['warpgroups']}"
            tile += f" in {fields['split']} CTAs" if fields["split"] != "1" else ""
        tiles.append(tile)
    changes = [f"{tokens}: {tile}" for tokens, tile, before in zip(TOKENS, tiles, [None, *tiles]) if tile != before]
    print(f"{form}: {', '.join(changes)}")
