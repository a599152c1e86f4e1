/* SPDX-License-Identifier: Apache-2.0
 * prefix_ghost.c: which prefixes were seen, as keys only. A wrong answer costs a snapshot in a place of little use, nothing else, so keys
 * are not told apart beyond their 64 bits.
 */
#include <string.h>

#include "base/base_mem.h"
#include "cache/prefix_impl.h"

enum { PLACES = 1 << 16, RUN = 8 };

typedef struct ghost_place {
	uint64_t key, seen; /* seen 0: empty */
} ghost_place;

bool prefix_ghost_init(prefix_ghost *g)
{
	g->place = mem_array(PLACES, sizeof *g->place);
	g->serial = 0;
	return g->place != NULL;
}

void prefix_ghost_deinit(prefix_ghost *g)
{
	mem_free(g->place);
	memset(g, 0, sizeof *g);
}

static ghost_place *ghost_at(const prefix_ghost *g, uint64_t key, int i) { return &g->place[(key + (uint64_t)i) % PLACES]; }

void prefix_ghost_see(prefix_ghost *g, uint64_t key)
{
	ghost_place *to = ghost_at(g, key, 0);
	for (int i = 0; i < RUN; i++) {
		ghost_place *p = ghost_at(g, key, i);
		if (p->seen && p->key == key) {
			to = p;
			break;
		}
		if (p->seen < to->seen) to = p;
	}
	*to = (ghost_place){key, ++g->serial};
}

bool prefix_ghost_seen(const prefix_ghost *g, uint64_t key)
{
	for (int i = 0; i < RUN; i++) {
		const ghost_place *p = ghost_at(g, key, i);
		if (p->seen && p->key == key) return true;
	}
	return false;
}
