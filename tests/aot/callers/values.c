/* Prints values of a library in decimal digits that tell the number, and errors. */
#include <stdio.h>

#include "f.h"

enum { N = 23 };

int main(void)
{
    double w[2] = {0.7, 0.1}, x[N], y[N], value, g[2], walked[N];
    for (int i = 0; i < N; i++) {
        x[i] = i / 11.0 - 1;
        y[i] = x[i] / (1 + x[i] * x[i]);
    }
    if (curve_grad(w, 2, x, N, y, N, &value, g) != 0 || walk(3, x, N, walked, N) != 0) return 1;
    printf("%.17g %.17g %.17g", value, g[0], g[1]);
    for (int i = 0; i < N; i++) printf(" %.17g", walked[i]);
#ifdef OTHER
    int64_t q;
    int wrong = quotient(1, 0, &q);
    if (JITAD_KIND(wrong) != JITAD_ZERO_DIVISION || g_strerror(wrong)[0] != 'q') return 2;
#endif
    int deep = depth(100000000, 1.0, &value), outside = pick(x, N, 99, &value);
    printf("\n%d %d %s\n", JITAD_KIND(deep), JITAD_KIND(outside), f_strerror(outside));
    return 0;
}
