/* Gradient descent on the loss of fit.py, without Python. */
#include <stdio.h>
#include "loss.h"

int main(void)
{
    double w[2] = {0.5, 0.1}, gradient[2], x[50], y[50], value = 0;
    for (int i = 0; i < 50; i++) {
        x[i] = i / 25.0 - 1;
        y[i] = x[i] / (1 + x[i] * x[i]);
    }
    for (int step = 0; step < 2000; step++) {
        int code = loss_grad(w, 2, x, 50, y, 50, &value, gradient);
        if (code != 0) {
            fprintf(stderr, "%s\n", jitad_strerror(code));
            return 1;
        }
        for (int k = 0; k < 2; k++) w[k] -= 0.01 * gradient[k];
    }
    printf("loss %.6f at w = (%.4f, %.4f)\n", value, w[0], w[1]);
    return 0;
}
