/* sum of exp(sin x) * sqrt(1 + x x) + tanh x over an f32 array, and its gradient. */
#include <math.h>

double chain(long n, const float *restrict x)
{
    double total = 0;
    for (long i = 0; i < n; i++)
        total += expf(sinf(x[i])) * sqrtf(1 + x[i] * x[i]) + tanhf(x[i]);
    return total;
}

double chain_gradient(long n, const float *restrict x, float *restrict x_bar)
{
    double total = 0;
    for (long i = 0; i < n; i++) {
        float e = expf(sinf(x[i])), root = sqrtf(1 + x[i] * x[i]), t = tanhf(x[i]);
        total += e * root + t;
        x_bar[i] = e * (cosf(x[i]) * root + x[i] / root) + 1 - t * t;
    }
    return total;
}
