/* SPDX-License-Identifier: Apache-2.0
 * draft.c: prompt lookup: where the last few tokens have come before, what followed them then may follow again. A guess costs a row and is
 * worth a step; it never changes a token, because it is kept only where the draw says the same.
 */
#include <string.h>

#include "engine/engine_impl.h"

#define LONGEST 4 /* tokens that are looked for */
#define SHORTEST 2
#define FAR 4096 /* how far back */

int draft_propose(const int32_t *ids, int64_t n, int k, int32_t *out)
{
	int64_t from = n > FAR ? n - FAR : 0;
	for (int m = LONGEST; m >= SHORTEST; m--) {
		if (n <= m) continue;
		const int32_t *tail = ids + n - m;
		for (int64_t at = n - m - 1; at >= from; at--) {
			if (ids[at] != tail[0] || memcmp(ids + at, tail, (size_t)m * sizeof *ids) != 0) continue;
			int64_t count = n - at - m < k ? n - at - m : k;
			memcpy(out, ids + at + m, (size_t)count * sizeof *ids);
			return (int)count;
		}
	}
	return 0;
}
