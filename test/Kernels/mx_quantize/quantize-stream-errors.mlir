// MX quantization along the last dimension: schedules that no kernel can have, and those of another kernel.

// RUN: moe-opt %s --split-input-file --moe-select-schedule --verify-diagnostics

func.func @tiles(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule' has no field 'band'}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {tile_n = 128, tile_k = 128, stages = 3, output_stages = 1, warps = 8, ctas_per_sm = 2, band = 1}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @no_chunk(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.chunks' is 0; it must be between 1 and 4}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 0, warps = 8, ctas_per_sm = 6, persistent = 0}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @chunks(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.chunks' is 5; it must be between 1 and 4}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 5, warps = 8, ctas_per_sm = 6, persistent = 0}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

// A chunk of f32 is 8 vectors of a lane, one of bf16 is 4.
func.func @vectors(%x: tensor<?x?xf32>) {
  // expected-error@below {{'schedule' gives each thread 24 vectors; it may have at most 16}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 3, warps = 4, ctas_per_sm = 1, persistent = 0}}
      : (tensor<?x?xf32>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @registers(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule' leaves 32 registers to each of 1792 threads; the kernel needs 40}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 1, warps = 8, ctas_per_sm = 7, persistent = 0}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}

// -----

func.func @persistent(%x: tensor<?x?xbf16>) {
  // expected-error@below {{'schedule.persistent' is 2; it must be between 0 and 1}}
  %q, %s = "mx_quantize.quantize"(%x) {axis = 1 : i64, block = 32 : i64, mode = "rceil",
      schedule = {chunks = 1, warps = 8, ctas_per_sm = 6, persistent = 2}}
      : (tensor<?x?xbf16>) -> (tensor<?x?xf8E4M3FN>, tensor<?x?xf8E8M0FNU>)
  return
}
