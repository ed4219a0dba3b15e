/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of kernels/backend.h in plain C: their specification, and what tests compare with.
 *
 * reference.inc is written once for a type REAL; here it is included for float and double, with the
 * suffixes _f32 and _f64: dp_ref_gelu_f64. Matrices are dense; a sparse op is the dense one with zeros
 * in w, and its weight gradient is the dense one where w has nonzeros. Backward functions do what the
 * structs of backend.h say about = and +=. The gradients are checked against finite differences in
 * tests/unit/kernels/test_kernels_gradients.c.
 */
#ifndef DP_KERNELS_REFERENCE_H
#define DP_KERNELS_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define DP_REF_JOIN(name, suffix) dp_ref_##name##_##suffix
#define DP_REF_EXPAND(name, suffix) DP_REF_JOIN(name, suffix)

#define REAL float
#define REF(name) DP_REF_EXPAND(name, f32)
#include "kernels/reference.inc"
#undef REAL
#undef REF

#define REAL double
#define REF(name) DP_REF_EXPAND(name, f64)
#include "kernels/reference.inc"
#undef REAL
#undef REF

#endif
