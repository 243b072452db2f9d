/* s = sin(s * w) + w, repeated, and ds/dw by its adjoint.  kept: steps doubles. */
#include <math.h>

double recurrence(long steps, double s, double w)
{
    for (long i = 0; i < steps; i++)
        s = sin(s * w) + w;
    return s;
}

double recurrence_gradient(long steps, double s, double w, double *restrict kept)
{
    for (long i = 0; i < steps; i++) {
        kept[i] = s;
        s = sin(s * w) + w;
    }
    double s_bar = 1, w_bar = 0;
    for (long i = steps - 1; i >= 0; i--) {
        double inner_bar = s_bar * cos(kept[i] * w);
        w_bar += s_bar + inner_bar * kept[i];
        s_bar = inner_bar * w;
    }
    return w_bar;
}
