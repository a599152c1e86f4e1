/* SPDX-License-Identifier: Apache-2.0
 * ref_tile.c: the two loops in which nearly all time goes. They are written as short loops of fixed length over a tile of independent
 * sums; this file alone is built with the straight-line vectoriser only (CMakeLists.txt), which keeps the tile in registers.
 */
#include "backend/ref/ref_math.h"

void ref_accumulate(double acc[REF_TILE], const double *restrict x, const double *restrict w, int64_t ldw, int64_t k)
{
	double s[REF_TILE];
	for (int j = 0; j < REF_TILE; j++) s[j] = acc[j];
	for (int64_t i = 0; i < k; i++, w += ldw)
		for (int j = 0; j < REF_TILE; j++) s[j] += x[i] * w[j];
	for (int j = 0; j < REF_TILE; j++) acc[j] = s[j];
}

#define LANES 8 /* partial sums over n, added up in a fixed order */

/* `eager` is a constant at each call. */
static inline void recur(double *restrict S, const double *restrict db, const double *restrict c, double da, const double *restrict in,
    double *restrict y, int64_t P, int64_t N, bool eager)
{
	const int64_t whole = N - N % LANES;
	for (int64_t p = 0; p < P; p++, S += N) {
		double sum[LANES] = {0};
		const double xp = in[p];
		for (int64_t n = 0; n < whole; n += LANES)
			for (int l = 0; l < LANES; l++) {
				double v = S[n + l] * da + db[n + l] * xp;
				if (eager) v = (double)(float)v;
				S[n + l] = v;
				sum[l] += v * c[n + l];
			}
		for (int64_t n = whole; n < N; n++) {
			double v = S[n] * da + db[n] * xp;
			if (eager) v = (double)(float)v;
			S[n] = v;
			sum[n - whole] += v * c[n];
		}
		y[p] = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
	}
}

void ref_recur(double *S, const double *db, const double *c, double da, const double *in, double *y, int64_t P, int64_t N, bool eager)
{
	if (eager) recur(S, db, c, da, in, y, P, N, true);
	else recur(S, db, c, da, in, y, P, N, false);
}
