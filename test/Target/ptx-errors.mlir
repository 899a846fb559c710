// What is in a gpu.module and is no kernel.

// RUN: moe-opt %s --split-input-file --emit=ptx --verify-diagnostics

gpu.module @kernels {
  // expected-error@below {{no pass turns this 'func.func' into a kernel}}
  func.func @f() {
    return
  }
}

// -----

gpu.module @kernels {
  // expected-error@below {{no pass turns this 'func.func' into a kernel}}
  func.func private @declaration()
}

// -----

gpu.module @kernels {
  // expected-error@below {{no pass turns this 'gpu.func' into a kernel}}
  gpu.func @f() kernel {
    gpu.return
  }
}
