/* Wrong calls, on memory without a byte to spare: prints the kinds of the errors. */
#include <stdio.h>
#include <stdlib.h>

#include "old.h"

int main(void)
{
    double *w = calloc(2, sizeof *w), *x = calloc(5, sizeof *x), *g = malloc(2 * sizeof *g), value;
    if (curve_grad(w, 2, x, 5, x, 5, &value, g) != 0) return 1;
    if (g[0] + g[1] + value != 0) return 2;
    int kinds[] = {curve_grad(w, 2, NULL, 5, x, 5, &value, g), curve_grad(w, 2, x, 5, x, 4, &value, g),
                   pick(x, 5, 5, &value), pick(x, 5, INT64_MIN, &value), pick(x, 5, 0, NULL)};
    for (int i = 0; i < 5; i++) {
        if (old_strerror(kinds[i])[0] == 0) return 3;
        printf("%d%c", JITAD_KIND(kinds[i]), i < 4 ? ' ' : '\n');
    }
    free(w);
    free(x);
    free(g);
    return 0;
}
