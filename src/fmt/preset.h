/* SPDX-License-Identifier: Apache-2.0
 * preset.h: configurations of the published shapes, made here from a table, so that their speed can be tried without a file of theirs.
 * Knows dimensions and which modules a release quantises (model.md 2.6, 10.1), no tensor and no value; a multi-token block is left out.
 * Breaks first: a preset counts as many parameters as its release.
 */
#ifndef FMT_PRESET_H
#define FMT_PRESET_H

#include <jansson.h>

#include "base/base_status.h"

const char *preset_at(int i); /* "lightning-30b", ...; NULL past the end */

/* wanted: NAME or NAME:FORMAT with FORMAT bf16, fp8, nvfp4, w4a16, mixed (Lightning: FP8 Mamba, NVFP4 experts and head) or super (NVFP4 routed
 * experts, FP8 Mamba and shared experts); without one the release's own. layers: the first so many, 0 all; where a kind of layer would be
 * missing and there is room, the last layer of a kind that is there more than once becomes it. *out is a whole config.json with
 * quantization_config, the caller's to json_decref. NH_ERR_ARG lists the choices. */
nh_status preset_config(json_t **out, const char *wanted, int layers, nh_error *e);
/* The word of `wanted`'s format: static text; NULL where the name or the format is not known. */
const char *preset_format(const char *wanted);

#endif
