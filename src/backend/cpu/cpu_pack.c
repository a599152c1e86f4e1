/* SPDX-License-Identifier: Apache-2.0
 * cpu_pack.c: binds the reference kernels to weights until this arm has its own.
 */
#include "backend/cpu/cpu.h"
#include "backend/ref/ref_backend.h"

nh_status cpu_pack_import(exec *x, weight *w, nh_error *e) { return ref_backend.import(x, w, e); }

void cpu_pack_release(exec *x, weight *w) { ref_backend.release(x, w); }
