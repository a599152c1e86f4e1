/* SPDX-License-Identifier: Apache-2.0
 * nh_tensors.h: reads a safetensors file: for traces and for programs that look at weights. Immutable; any thread.
 */
#ifndef NH_TENSORS_H
#define NH_TENSORS_H

#include "nh_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nh_tensors nh_tensors;

typedef struct nh_tensor_view {
	size_t size;
	const char *name;
	const char *dtype; /* "f32", "bf16", "e4m3", "u8", "i32", ... */
	int32_t rank;
	int64_t shape[8];
	const void *data; /* little-endian, may be unaligned; lives as long as the file is open */
	uint64_t bytes;
} nh_tensor_view;

NH_API nh_status nh_tensors_open(nh_tensors **out, const char *path, nh_error *error);
NH_API void nh_tensors_close(nh_tensors *tensors);
NH_API size_t nh_tensors_count(const nh_tensors *tensors);
NH_API bool nh_tensors_at(const nh_tensors *tensors, size_t index, nh_tensor_view *view, size_t size);
NH_API bool nh_tensors_find(const nh_tensors *tensors, const char *name, nh_tensor_view *view, size_t size);
/* Value of a key of the file's __metadata__, or NULL. */
NH_API const char *nh_tensors_metadata(const nh_tensors *tensors, const char *key);

#ifdef __cplusplus
}
#endif
#endif
