/* SPDX-License-Identifier: Apache-2.0
 * num_types.h: element types and quantisation schemes. Knows no file format and no tensor.
 */
#ifndef NUM_TYPES_H
#define NUM_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* name, bytes of one stored unit, text */
#define NUM_DTYPE_LIST(X)                                                                                      \
	X(NUM_NONE, 0, "none")                                                                                     \
	X(NUM_F64, 8, "f64")                                                                                       \
	X(NUM_F32, 4, "f32")                                                                                       \
	X(NUM_F16, 2, "f16")                                                                                       \
	X(NUM_BF16, 2, "bf16")                                                                                     \
	X(NUM_E4M3, 1, "e4m3")   /* OCP FP8 E4M3FN: no infinity, NaN 0x7F and 0xFF, largest 448 */                 \
	X(NUM_E5M2, 1, "e5m2")   /* OCP FP8 E5M2: IEEE-like, infinities and NaN, largest 57344 */                  \
	X(NUM_E2M1X2, 1, "e2m1") /* two FP4 E2M1 codes a byte, low nibble first; largest 6; no infinity, no NaN */ \
	X(NUM_U8, 1, "u8")                                                                                         \
	X(NUM_I8, 1, "i8")                                                                                         \
	X(NUM_I16, 2, "i16")                                                                                       \
	X(NUM_I32, 4, "i32")                                                                                       \
	X(NUM_I64, 8, "i64")                                                                                       \
	X(NUM_U16, 2, "u16")                                                                                       \
	X(NUM_U32, 4, "u32")                                                                                       \
	X(NUM_U64, 8, "u64")                                                                                       \
	X(NUM_BOOL, 1, "bool")

typedef enum num_dtype {
#define NUM_DTYPE_ENUM(name, bytes, text) name,
	NUM_DTYPE_LIST(NUM_DTYPE_ENUM)
#undef NUM_DTYPE_ENUM
	    NUM_DTYPE_COUNT
} num_dtype;

/* How a weight matrix is stored and multiplied (model.md 2.4). */
#define NUM_SCHEME_LIST(X)                                                                                              \
	X(NUM_SCHEME_NONE, "bf16")         /* unquantised: the file's own BF16 (or F32) */                                  \
	X(NUM_SCHEME_FP8, "fp8")           /* W8A8, static per-tensor scales */                                             \
	X(NUM_SCHEME_NVFP4, "nvfp4-w4a4")  /* FP4 weights, block scales of 16, input scale: FP4 activations where native */ \
	X(NUM_SCHEME_W4A16, "nvfp4-w4a16") /* FP4 weights, block scales of 16, bf16 activations */

typedef enum num_scheme {
#define NUM_SCHEME_ENUM(name, text) name,
	NUM_SCHEME_LIST(NUM_SCHEME_ENUM)
#undef NUM_SCHEME_ENUM
	    NUM_SCHEME_COUNT
} num_scheme;

size_t num_bytes(num_dtype type);           /* bytes of one stored unit (of two elements for NUM_E2M1X2); 0 for NUM_NONE */
const char *num_dtype_name(num_dtype type); /* "bf16"; "?" for a value outside the list */
const char *num_scheme_name(num_scheme scheme);

#endif
