/* SPDX-License-Identifier: Apache-2.0
 * base_mem.c: wraps the C allocator; counts what lives and can be told to fail. The counters of other things that can fail lie here too, since
 * nothing else in the library has global state.
 */
#include "base/base_mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static atomic_size_t g_live;
static struct {
	atomic_size_t from; /* the first operation that fails; SIZE_MAX: injection off */
	atomic_size_t count, seen;
} g_fault[MEM_FAULT_KINDS] = {{.from = SIZE_MAX}, {.from = SIZE_MAX}, {.from = SIZE_MAX}, {.from = SIZE_MAX}};

void mem_fault_set(mem_fault kind, size_t after, size_t count)
{
	atomic_store(&g_fault[kind].from, SIZE_MAX);
	atomic_store(&g_fault[kind].seen, 0);
	atomic_store(&g_fault[kind].count, count);
	atomic_store(&g_fault[kind].from, after);
}

size_t mem_fault_hits(mem_fault kind)
{
	size_t from = atomic_load(&g_fault[kind].from), seen = atomic_load(&g_fault[kind].seen), count = atomic_load(&g_fault[kind].count);
	if (seen <= from) return 0;
	return seen - from < count ? seen - from : count;
}

bool mem_fault_now(mem_fault kind)
{
	size_t from = atomic_load_explicit(&g_fault[kind].from, memory_order_relaxed);
	if (from == SIZE_MAX) return false;
	size_t mine = atomic_fetch_add(&g_fault[kind].seen, 1);
	return mine >= from && mine - from < atomic_load(&g_fault[kind].count);
}

void mem_fail_after(size_t after) { mem_fault_set(MEM_FAULT_ALLOC, after, SIZE_MAX); }
size_t mem_live(void) { return atomic_load(&g_live); }

static bool refuse(void) { return mem_fault_now(MEM_FAULT_ALLOC); }

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
