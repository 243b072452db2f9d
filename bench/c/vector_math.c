/* The limit that vector mathematics sets to the chain: the same functions of libmvec, as often, on 2048 numbers that
   stay in the first cache. */
#include <immintrin.h>

#if __AVX512F__
typedef __m512 vector;
#define CALL(f) _ZGVeN16v_##f
#define ROOT _mm512_sqrt_ps
#else
typedef __m256 vector;
#define CALL(f) _ZGVdN8v_##f
#define ROOT _mm256_sqrt_ps
#endif
enum { LANES = sizeof(vector) / sizeof(float), BLOCK = 2048 / LANES };

vector CALL(sinf)(vector), CALL(cosf)(vector), CALL(expf)(vector), CALL(tanhf)(vector);

static double sum(vector v)
{
    double total = 0;
    for (int i = 0; i < LANES; i++)
        total += v[i];
    return total;
}

double value(long n, const float *x)
{
    const vector *block = (const vector *)x;
    vector total = {0};
    for (long done = 0; done < n; done += 2048)
        for (int i = 0; i < BLOCK; i++) {
            vector v = block[i];
            total += CALL(expf)(CALL(sinf)(v)) * ROOT(1 + v * v) + CALL(tanhf)(v);
        }
    return sum(total);
}

double gradient(long n, const float *x, float *x_bar)
{
    const vector *block = (const vector *)x;
    vector total = {0}, *bar = (vector *)x_bar;
    for (long done = 0; done < n; done += 2048)
        for (int i = 0; i < BLOCK; i++) {
            vector v = block[i], e = CALL(expf)(CALL(sinf)(v)), root = ROOT(1 + v * v), t = CALL(tanhf)(v);
            total += e * root + t;
            bar[i] = e * (CALL(cosf)(v) * root + v / root) + 1 - t * t;
        }
    return sum(total);
}
