/* SPDX-License-Identifier: Apache-2.0
 * base_mem.c: wraps the C allocator; counts what lives and can be told to fail.
 */
#include "base/base_mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_size_t g_live;
static atomic_size_t g_fail_after = SIZE_MAX; /* SIZE_MAX: injection off */

void mem_fail_after(size_t after) { atomic_store(&g_fail_after, after); }
size_t mem_live(void) { return atomic_load(&g_live); }

static bool refuse(void)
{
	size_t left = atomic_load_explicit(&g_fail_after, memory_order_relaxed);
	while (left != SIZE_MAX) {
		if (left == 0) return true;
		if (atomic_compare_exchange_weak(&g_fail_after, &left, left - 1)) return false;
	}
	return false;
}

static void *counted(void *p)
{
	if (p) atomic_fetch_add_explicit(&g_live, 1, memory_order_relaxed);
	return p;
}

void *mem_alloc(size_t bytes) { return refuse() ? NULL : counted(calloc(1, bytes ? bytes : 1)); }

void *mem_array(size_t count, size_t size)
{
	size_t bytes;
	return mem_mul(count, size, &bytes) ? mem_alloc(bytes) : NULL;
}

void *mem_aligned(size_t align, size_t bytes)
{
	void *p = NULL;
	if (refuse() || posix_memalign(&p, align, bytes ? bytes : 1) != 0) return NULL;
	memset(p, 0, bytes);
	return counted(p);
}

void *mem_resize(void *p, size_t count, size_t size)
{
	size_t bytes;
	if (!mem_mul(count, size, &bytes) || refuse()) return NULL;
	void *q = realloc(p, bytes ? bytes : 1);
	if (q && !p) counted(q);
	return q;
}

void mem_free(void *p)
{
	if (!p) return;
	atomic_fetch_sub_explicit(&g_live, 1, memory_order_relaxed);
	free(p);
}

/* The mapping's own size stands in the page before the memory that is handed out. */
typedef struct pages_head {
	void *base;
	size_t whole;
} pages_head;

void *mem_pages(size_t bytes)
{
	const size_t align = bytes >= MEM_HUGE ? MEM_HUGE : MEM_PAGE;
	size_t whole;
	if (!mem_add(bytes, align + MEM_PAGE, &whole) || refuse()) return NULL;
	char *base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED) return NULL;
	char *p = base + (((uintptr_t)base + MEM_PAGE + align - 1) / align * align - (uintptr_t)base);
	if (bytes >= MEM_HUGE) madvise(p, bytes, MADV_HUGEPAGE); /* a wish */
	*(pages_head *)(p - MEM_PAGE) = (pages_head){base, whole};
	return counted(p);
}

void mem_pages_free(void *p)
{
	if (!p) return;
	const pages_head h = *(const pages_head *)((char *)p - MEM_PAGE);
	atomic_fetch_sub_explicit(&g_live, 1, memory_order_relaxed);
	munmap(h.base, h.whole);
}

char *mem_strndup(const char *s, size_t n)
{
	char *p = n < SIZE_MAX ? mem_alloc(n + 1) : NULL;
	if (p) memcpy(p, s, n);
	return p;
}

char *mem_strdup(const char *s) { return mem_strndup(s, strlen(s)); }
