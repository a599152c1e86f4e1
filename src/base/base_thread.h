/* SPDX-License-Identifier: Apache-2.0
 * base_thread.h: how the library starts a thread: here only, so that a test can make the nth start fail (MEM_FAULT_THREAD of base_mem.h). Threads
 * are pthreads; whoever starts one joins it.
 */
#ifndef BASE_BASE_THREAD_H
#define BASE_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* False: no thread was started, *thread is not set. */
bool thread_start(pthread_t *thread, void *(*run)(void *user), void *user);

#endif
