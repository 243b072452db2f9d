/* ADBench's mixture and its gradient: `mixture FILE` prints all digits, `mixture FILE CALLS` tests calls instead.
 *
 * FILE holds K d n, then alphas, means, factors, points, gamma and m.  All arrays have no byte to spare, so that
 * AddressSanitizer and Valgrind see each access beyond them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef __wasi__
#include <pthread.h>
#endif

#include "gmm.h"

enum { THREADS = 8 };

struct problem {
    gmm_mixture_t mixture;
    gmm_prior_t prior;
    double *points;
    int64_t n, d, count;        /* count: numbers of the gradient */
};

static double *numbers(FILE *from, int64_t count)
{
    double *to = malloc(count * sizeof *to);
    for (int64_t i = 0; i < count; i++)
        if (fscanf(from, "%lf", &to[i]) != 1) exit(3);
    return to;
}

static int gradient(const struct problem *p, double *value, double *to)
{
    int64_t k = p->mixture.alphas_0;
    gmm_grad_mixture_t out = {to, to + k, to + k + k * p->d};
    return gmm_grad(&p->mixture, p->points, p->n, p->d, &p->prior, value, &out);
}

#ifndef __wasi__
static double first, *expected;

static void *work(void *with)
{
    const struct problem *p = with;
    double value, *to = malloc(p->count * sizeof *to);
    long wrong = 0;
    for (int i = 0; i < 20; i++)
        wrong += gradient(p, &value, to) != 0 || value != first || memcmp(to, expected, p->count * sizeof *to) != 0;
    free(to);
    return (void *)wrong;
}

static long resident(void)
{
    long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &size, &pages) != 2) exit(4);
    fclose(f);
    return pages;
}

/* Calls that must fail, then threads, then many calls; returns 0 if all is well. */
static int calls(struct problem *p, long count)
{
    double value, *to = expected = malloc(p->count * sizeof *to);
    struct problem wrong = *p;
    int kinds[7], i = 0;
    if (gradient(p, &first, to) != 0) return 5;
    wrong.mixture.means_1 += 1;
    kinds[i++] = gradient(&wrong, &value, to);
    wrong = *p;
    wrong.mixture.icf_0 -= 1;
    kinds[i++] = gradient(&wrong, &value, to);
    wrong = *p;
    wrong.n = -1;
    kinds[i++] = gradient(&wrong, &value, to);
    wrong = *p;
    wrong.mixture.icf = NULL;
    kinds[i++] = gradient(&wrong, &value, to);
    kinds[i++] = gradient(p, NULL, to);
    kinds[i++] = gmm_grad(&p->mixture, p->points, p->n, p->d, &p->prior, &value, NULL);
    wrong = *p;
    wrong.mixture.icf_1 -= 1;                   /* an index beyond the rows of the factors */
    kinds[i++] = gradient(&wrong, &value, to);
    for (int j = 0; j < i; j++) printf("%d%s", JITAD_KIND(kinds[j]), j < i - 1 ? " " : "\n");

    pthread_t threads[THREADS];
    long failed = 0;
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, p);
    for (int t = 0; t < THREADS; t++) {
        void *told;
        pthread_join(threads[t], &told);
        failed += (long)told;
    }
    printf("%ld of %d threads have other digits\n", failed, THREADS);

    long before = 0;
    double *again = malloc(p->count * sizeof *again);
    for (long c = 0; c < count; c++) {
        if (c == count / 10) before = resident();
        if (gradient(p, &value, again) != 0 || value != first) return 6;
        if (c % 2 && JITAD_KIND(gradient(&wrong, &value, again)) != JITAD_INDEX) return 7;
    }
    printf("%s\n", resident() - before < 16 ? "no more memory" : "leaks");
    free(again);
    free(to);
    return 0;
}
#endif

int main(int argc, char **argv)
{
    FILE *from = argc > 1 ? fopen(argv[1], "r") : stdin;
    long k, d, n;
    if (from == NULL || fscanf(from, "%ld %ld %ld", &k, &d, &n) != 3) return 1;
    int64_t width = d + d * (d - 1) / 2;
    struct problem p = {.n = n, .d = d, .count = k + k * d + k * width};
    p.mixture = (gmm_mixture_t){numbers(from, k), k, numbers(from, k * d), k, d, numbers(from, k * width), k, width};
    p.points = numbers(from, n * d);
    double *last = numbers(from, 2);
    p.prior = (gmm_prior_t){last[0], (int64_t)last[1]};
    fclose(from);
    int code = 0;
#ifndef __wasi__
    if (argc > 2) code = calls(&p, atol(argv[2]));
#endif
    if (argc <= 2) {
        double value, *to = malloc(p.count * sizeof *to);
        code = gradient(&p, &value, to);
        printf("%.17g\n", value);
        for (int64_t i = 0; i < p.count; i++) printf("%.17g\n", to[i]);
        free(to);
    }
    free((void *)p.mixture.alphas);
    free((void *)p.mixture.means);
    free((void *)p.mixture.icf);
    free(p.points);
    free(last);
    if (code != 0) fprintf(stderr, "%d: %s\n", code, code < 8 ? "see the source" : gmm_strerror(code));
    return code != 0;
}
