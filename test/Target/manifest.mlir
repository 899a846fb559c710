// The manifest: everything a launcher must know.

// RUN: moe-opt %s --emit=manifest -o %t.json
// RUN: %python %S/Inputs/manifest.py %source_dir/docs/manifest.schema.json %t.json | FileCheck %s

#col_major = affine_map<(e, n, k) -> (e, k, n)>

// CHECK: the schema accepts it
// CHECK-NEXT: kernel dynamic_0 block [256, 1, 1] cluster [1, 1, 1] shared_memory 49168
// CHECK-NEXT: kernel static_0 block [288, 1, 1] cluster [1, 1, 1] shared_memory 81952
// CHECK-NEXT: kernel static_1 block [256, 1, 1] cluster [1, 1, 1] shared_memory 49168

// Names are those of the source. What the kernel needs of a dimension is a property of its symbol, and sizes of results follow from it.
// CHECK-NEXT: function dynamic
// CHECK-NEXT: symbol w.0 multiple_of 1 min 0 max 2147483647
// CHECK-NEXT: symbol w.1 multiple_of 32 min 0 max 2147483647
// CHECK-NEXT: symbol w.2 multiple_of 16 min 0 max 2147483647
// CHECK-NEXT: argument w bf16 ["w.0", "w.1", "w.2"] order [0, 1, 2] alignment 16
// CHECK-NEXT: result q f8E4M3FN ["w.0", "w.1", "w.2"] order [0, 2, 1] alignment 16
// CHECK-NEXT: result s f8E8M0FNU ["w.0", {"ceildiv": ["w.1", 32]}, "w.2"] order [0, 1, 2] alignment 16
// CHECK-NEXT: launch dynamic_0 mx_quantize.quantize {"axis": 1, "block": 32, "mode": "rceil"} ["w"] -> ["q", "s"]
// CHECK-NEXT: roles x q scales
// CHECK-NEXT: grid [{"mul": ["w.0", {"ceildiv": ["w.1", 128]}, {"ceildiv": ["w.2", 128]}]}, 1, 1]
// CHECK-NEXT: {"kind": "scalar", "type": "i32", "value": "w.0"}
// CHECK-NEXT: {"kind": "scalar", "type": "i32", "value": "w.1"}
// CHECK-NEXT: {"kind": "scalar", "type": "i32", "value": "w.2"}
// CHECK-NEXT: {"box": [64, 128, 1], "dims": ["w.2", "w.1", "w.0"], "element": "bf16", "fill": "zero", "kind": "tensor_map", "l2_promotion": "256B", "strides": [{"mul": ["w.2", 2]}, {"mul": ["w.1", "w.2", 2]}], "swizzle": "128B", "tensor": "w"}
// CHECK-NEXT: {"box": [128, 128, 1], "dims": ["w.1", "w.2", "w.0"], "element": "u8", "fill": "zero", "kind": "tensor_map", "l2_promotion": "256B", "strides": ["w.1", {"mul": ["w.1", "w.2"]}], "swizzle": "128B", "tensor": "q"}
// CHECK-NEXT: {"kind": "pointer", "tensor": "s"}
func.func @dynamic(%w: tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>) {
  %q, %s = "mx_quantize.quantize"(%w) {axis = 1 : i64, block = 32 : i64, mode = "rceil"}
      : (tensor<?x?x?xbf16>) -> (tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>)
  return %q, %s : tensor<?x?x?xf8E4M3FN, #col_major>, tensor<?x?x?xf8E8M0FNU>
}

// Two launches and two arguments. Results stand in the order in which they are returned, not made; what is not returned is a temporary.
// A symbol belongs to the first dimension that is dynamic.
// CHECK-NEXT: function static
// CHECK-NEXT: symbol up.2 multiple_of 16 min 0 max 2147483647
// CHECK-NEXT: argument gate f32 [2, 64, 48] order [0, 1, 2] alignment 16
// CHECK-NEXT: argument up bf16 [2, 64, "up.2"] order [0, 1, 2] alignment 16
// CHECK-NEXT: result qu f8E4M3FN [2, 64, "up.2"] order [0, 2, 1] alignment 16
// CHECK-NEXT: result scales f8E8M0FNU [2, 2, 48] order [0, 1, 2] alignment 16
// CHECK-NEXT: result qg f8E5M2 [2, 64, 48] order [0, 2, 1] alignment 16
// CHECK-NEXT: temporary temporary0 f8E8M0FNU [2, 2, "up.2"] order [0, 1, 2] alignment 16 initial none
// CHECK-NEXT: launch static_0 mx_quantize.quantize {"axis": 1, "block": 32, "mode": "even", "note.by": "me", "note.off": false, "note.on": true} ["gate"] -> ["qg", "scales"]
// CHECK-NEXT: roles
// CHECK-NEXT: grid [{"min": [{"mul": [2, {"ceildiv": [64, 128]}, {"ceildiv": [48, 64]}]}, {"mul": ["num_sms", 2]}]}, 1, 1]
// CHECK-NEXT: "tensor": "gate"
// CHECK-NEXT: "tensor": "qg"
// CHECK-NEXT: {"kind": "pointer", "tensor": "scales"}
// CHECK-NEXT: launch static_1 {{.*}} ["up"] -> ["qu", "temporary0"]
// CHECK-NEXT: roles
// CHECK-NEXT: grid
// CHECK-NEXT: {"kind": "scalar", "type": "i32", "value": "up.2"}
// CHECK-NEXT: "tensor": "up"
// CHECK-NEXT: "tensor": "qu"
// CHECK-NEXT: {"kind": "pointer", "tensor": "temporary0"}
// CHECK-NOT: {{.}}
func.func @static(%gate: tensor<2x64x48xf32>, %up: tensor<2x64x?xbf16>)
    -> (tensor<2x64x?xf8E4M3FN, #col_major>, tensor<2x2x48xf8E8M0FNU> {moe.name = "scales"}, tensor<2x64x48xf8E5M2, #col_major>) {
  %qg, %sg = "mx_quantize.quantize"(%gate) {axis = 1 : i64, block = 32 : i64, mode = "even", note.by = "me", note.on = true, note.off = false}
      : (tensor<2x64x48xf32>) -> (tensor<2x64x48xf8E5M2, #col_major>, tensor<2x2x48xf8E8M0FNU>)
  %qu, %su = "mx_quantize.quantize"(%up) {axis = 1 : i64, block = 32 : i64, mode = "floor"}
      : (tensor<2x64x?xbf16>) -> (tensor<2x64x?xf8E4M3FN, #col_major>, tensor<2x2x?xf8E8M0FNU>)
  return %qu, %sg, %qg : tensor<2x64x?xf8E4M3FN, #col_major>, tensor<2x2x48xf8E8M0FNU>, tensor<2x64x48xf8E5M2, #col_major>
}
