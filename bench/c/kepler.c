/* Kepler's equation E - e sin E = M by Newton's method, until a step is below 1e-12; the sum of cos E, and its
   adjoint through the iterations, and by the implicit function theorem.  kept: room for 64 iterations of one pair. */
#include <math.h>

enum { MOST = 64 };

static inline double solve(double e, double M)
{
    double E = M + e * sin(M);
    for (int i = 0; i < MOST; i++) {
        double delta = (E - e * sin(E) - M) / (1 - e * cos(E));
        E -= delta;
        if (fabs(delta) < 1e-12)
            break;
    }
    return E;
}

double kepler(long n, const double *e, const double *M)
{
    double total = 0;
#pragma omp parallel for reduction(+ : total)
    for (long i = 0; i < n; i++)
        total += cos(solve(e[i], M[i]));
    return total;
}

double kepler_gradient(long n, const double *restrict e, const double *restrict M, double *restrict e_bar,
                       double *restrict M_bar)
{
    double total = 0, at[MOST], s[MOST], c[MOST];
    for (long i = 0; i < n; i++) {
        double ei = e[i], Mi = M[i], E = Mi + ei * sin(Mi);
        int count = 0;
        while (count < MOST) {
            at[count] = E;
            s[count] = sin(E);
            c[count] = cos(E);
            double delta = (E - ei * s[count] - Mi) / (1 - ei * c[count]);
            count++;
            E -= delta;
            if (fabs(delta) < 1e-12)
                break;
        }
        total += cos(E);
        double E_bar = -sin(E), eb = 0, Mb = 0;
        for (int k = count - 1; k >= 0; k--) {
            double below = 1 / (1 - ei * c[k]), delta = (at[k] - ei * s[k] - Mi) * below;
            double f_bar = -E_bar * below, g_bar = E_bar * delta * below;
            eb += -f_bar * s[k] - g_bar * c[k];
            Mb -= f_bar;
            E_bar += f_bar * (1 - ei * c[k]) + g_bar * ei * s[k];
        }
        e_bar[i] = eb + E_bar * sin(Mi);
        M_bar[i] = Mb + E_bar * (1 + ei * cos(Mi));
    }
    return total;
}

double kepler_implicit(long n, const double *restrict e, const double *restrict M, double *restrict e_bar,
                       double *restrict M_bar)
{
    double total = 0;
    for (long i = 0; i < n; i++) {
        double E = solve(e[i], M[i]), s = sin(E), c = cos(E);
        total += c;
        M_bar[i] = -s / (1 - e[i] * c);
        e_bar[i] = s * M_bar[i];
    }
    return total;
}
