/* SPDX-License-Identifier: Apache-2.0
 * base_thread.c: see the header. Owns no thread and knows nothing of what runs; the invariant that breaks first: nobody else in the library calls
 * pthread_create (scripts/check_banned).
 */
#include "base/base_thread.h"

#include "base/base_mem.h"

bool thread_start(pthread_t *thread, void *(*run)(void *user), void *user)
{
	return !mem_fault_now(MEM_FAULT_THREAD) && pthread_create(thread, NULL, run, user) == 0;
}
