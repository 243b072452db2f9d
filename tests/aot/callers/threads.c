/* Eight threads at once; then a thread whose stack is small, for which recursion ends in an error code. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "all.h"

enum { N = 23, THREADS = 8 };

struct result {
    double value, gradient[2];
    int code;
};

static double x[N], y[N];

static void *work(void *to)
{
    struct result *out = to;
    const double w[2] = {0.7, 0.1};
    for (int i = 0; i < 2000 && out->code == 0; i++)
        out->code = curve_grad(w, 2, x, N, y, N, &out->value, out->gradient);
    return NULL;
}

static void *deep(void *to)
{
    struct result *out = to;
    int simple = pick(x, N, 3, &out->value);
    out->code = simple != 0 ? simple : depth_grad(1000000, 1.0, &out->value, &out->gradient[0]);
    return NULL;
}

int main(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = i / 11.0 - 1;
        y[i] = x[i] / (1 + x[i] * x[i]);
    }
    pthread_t threads[THREADS];
    struct result results[THREADS];
    memset(results, 0, sizeof results);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, &results[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (results[i].code != 0 || memcmp(&results[i], &results[0], sizeof results[0]) != 0) {
            printf("thread %d: %s\n", i, all_strerror(results[i].code));
            return 1;
        }
    }
    printf("%d threads: the same digits\n", THREADS);

    pthread_attr_t small;
    pthread_attr_init(&small);
    if (pthread_attr_setstacksize(&small, 64 << 10) != 0) return 2;
    struct result last = {0};
    if (pthread_create(&threads[0], &small, deep, &last) != 0) return 3;
    pthread_join(threads[0], NULL);
    printf("small stack: %s\n", JITAD_KIND(last.code) == JITAD_RECURSION ? "recursion too deep" : all_strerror(last.code));
    return 0;
}
