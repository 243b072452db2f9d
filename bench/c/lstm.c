/* ADBench's LSTM objective and its gradient by hand.
 *
 * main: 2 l rows of 4 b, for each layer its weights and then its biases (forget, in, out, change); extra: 3 rows of b;
 * state: 2 l rows of b (hidden, cell); x: length rows of b.
 * kept: (length - 1) * l * 8 * b doubles, a step and layer: input, hidden and cell before, the four gates, tanh(cell).
 * pred: (length - 1) * b doubles. */
#include <math.h>
#include <string.h>

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

double lstm_value(long l, long length, long b, const double *restrict main, const double *restrict extra,
                  const double *restrict start, const double *restrict x, double *restrict kept, double *restrict pred)
{
    double state[2 * l * b], input[b], total = 0;
    memcpy(state, start, sizeof state);
    for (long t = 0; t + 1 < length; t++) {
        for (long j = 0; j < b; j++)
            input[j] = x[t * b + j] * extra[j];
        for (long i = 0; i < l; i++) {
            const double *restrict w = main + 2 * i * 4 * b, *restrict bias = w + 4 * b;
            double *restrict hidden = state + 2 * i * b, *restrict cell = hidden + b;
            double *restrict k = kept + (t * l + i) * 8 * b;
            for (long j = 0; j < b; j++) {
                double forget = sigmoid(input[j] * w[j] + bias[j]);
                double in = sigmoid(hidden[j] * w[b + j] + bias[b + j]);
                double out = sigmoid(input[j] * w[2 * b + j] + bias[2 * b + j]);
                double change = tanh(hidden[j] * w[3 * b + j] + bias[3 * b + j]);
                double next = cell[j] * forget + in * change, squashed = tanh(next);
                k[j] = input[j], k[b + j] = hidden[j], k[2 * b + j] = cell[j];
                k[3 * b + j] = forget, k[4 * b + j] = in, k[5 * b + j] = out, k[6 * b + j] = change, k[7 * b + j] = squashed;
                cell[j] = next;
                hidden[j] = input[j] = out * squashed;
            }
        }
        double sum = 2;
        for (long j = 0; j < b; j++) {
            double y = input[j] * extra[b + j] + extra[2 * b + j];
            pred[t * b + j] = exp(y);
            sum += pred[t * b + j];
            total += x[(t + 1) * b + j] * y;
        }
        double log_sum = log(sum), targets = 0;
        for (long j = 0; j < b; j++) {
            targets += x[(t + 1) * b + j];
            pred[t * b + j] /= sum;
        }
        total -= targets * log_sum;
    }
    return -total / ((length - 1) * b);
}

double lstm_gradient(long l, long length, long b, const double *restrict main, const double *restrict extra,
                     const double *restrict start, const double *restrict x, double *restrict main_bar,
                     double *restrict extra_bar, double *restrict kept, double *restrict pred)
{
    double value = lstm_value(l, length, b, main, extra, start, x, kept, pred), seed = -1.0 / ((length - 1) * b);
    double state_bar[2 * l * b], input_bar[b];
    memset(state_bar, 0, sizeof state_bar);
    memset(main_bar, 0, 8 * l * b * sizeof(double));
    memset(extra_bar, 0, 3 * b * sizeof(double));
    for (long t = length - 2; t >= 0; t--) {
        const double *restrict target = x + (t + 1) * b, *restrict last = kept + (t * l + l - 1) * 8 * b;
        double targets = 0;
        for (long j = 0; j < b; j++)
            targets += target[j];
        for (long j = 0; j < b; j++) {
            double y_bar = seed * (target[j] - targets * pred[t * b + j]);
            extra_bar[b + j] += y_bar * last[5 * b + j] * last[7 * b + j];
            extra_bar[2 * b + j] += y_bar;
            input_bar[j] = y_bar * extra[b + j];
        }
        for (long i = l - 1; i >= 0; i--) {
            const double *restrict w = main + 2 * i * 4 * b, *restrict k = kept + (t * l + i) * 8 * b;
            double *restrict w_bar = main_bar + 2 * i * 4 * b, *restrict bias_bar = w_bar + 4 * b;
            double *restrict hidden_bar = state_bar + 2 * i * b, *restrict cell_bar = hidden_bar + b;
            for (long j = 0; j < b; j++) {
                double input = k[j], hidden = k[b + j], cell = k[2 * b + j], forget = k[3 * b + j], in = k[4 * b + j];
                double out = k[5 * b + j], change = k[6 * b + j], squashed = k[7 * b + j];
                double next_bar = hidden_bar[j] + input_bar[j];
                double c_bar = cell_bar[j] + next_bar * out * (1 - squashed * squashed);
                double forget_bar = c_bar * cell * forget * (1 - forget);
                double in_bar = c_bar * change * in * (1 - in);
                double out_bar = next_bar * squashed * out * (1 - out);
                double change_bar = c_bar * in * (1 - change * change);
                cell_bar[j] = c_bar * forget;
                w_bar[j] += forget_bar * input, bias_bar[j] += forget_bar;
                w_bar[b + j] += in_bar * hidden, bias_bar[b + j] += in_bar;
                w_bar[2 * b + j] += out_bar * input, bias_bar[2 * b + j] += out_bar;
                w_bar[3 * b + j] += change_bar * hidden, bias_bar[3 * b + j] += change_bar;
                hidden_bar[j] = in_bar * w[b + j] + change_bar * w[3 * b + j];
                input_bar[j] = forget_bar * w[j] + out_bar * w[2 * b + j];
            }
        }
        for (long j = 0; j < b; j++)
            extra_bar[j] += input_bar[j] * x[t * b + j];
    }
    return value;
}
