/* SPDX-License-Identifier: Apache-2.0
 * base_mem.h: the only allocator of the library, so that a test can make the nth allocation fail and count leaks.
 * Sizes are size_t; products go through mem_mul. Memory is zeroed unless said otherwise. Thread-safe.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t bytes);                        /* zeroed; NULL when out of memory; bytes 0 gives a unique pointer */
void *mem_array(size_t count, size_t size);           /* zeroed; NULL on overflow or out of memory */
void *mem_aligned(size_t align, size_t bytes);        /* zeroed; align a power of two >= sizeof(void *) */
void *mem_resize(void *p, size_t count, size_t size); /* grown part NOT zeroed; on failure p stays valid and NULL is returned */
void mem_free(void *p);                               /* any pointer from above, or NULL */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n); /* copies n bytes and terminates */

/* Whole pages of the system, zero until touched, so that the first thread to write a page decides where it lies; large ones start on a
 * huge page and ask for huge pages. For weights, pools and other things of many megabytes. */
#define MEM_PAGE ((size_t)4096)
#define MEM_HUGE ((size_t)2 << 20)
void *mem_pages(size_t bytes);
void mem_pages_free(void *p); /* NULL is fine */

static inline bool mem_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool mem_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* Fault injection for tests. What can fail, each with a counter of its own: allocations here; reads, writes and the starts of threads in base_file
 * and base_thread. */
typedef enum mem_fault { MEM_FAULT_ALLOC, MEM_FAULT_READ, MEM_FAULT_WRITE, MEM_FAULT_THREAD, MEM_FAULT_KINDS } mem_fault;
/* After `after` further operations of the kind the next `count` fail, and those behind them no more. after SIZE_MAX: none fails. */
void mem_fault_set(mem_fault kind, size_t after, size_t count);
size_t mem_fault_hits(mem_fault kind); /* how many failed since the last mem_fault_set of the kind */
bool mem_fault_now(mem_fault kind);    /* asked once by each operation: true where it must fail */
/* mem_fault_set(MEM_FAULT_ALLOC, after, SIZE_MAX): each further allocation fails, until cleared with SIZE_MAX. */
void mem_fail_after(size_t after);
size_t mem_live(void); /* allocations not yet freed */

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
