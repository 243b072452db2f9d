// L layers, LENGTH, B
static inline double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
void lstm(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, 8 * L * B>& weights,
          const enzyme::tensor<double, 3 * B>& extra, const enzyme::tensor<double, 2 * L * B>& start,
          const enzyme::tensor<double, LENGTH * B>& x)
{
    double state[2 * L * B], input[B], total = 0;
    for (long i = 0; i < 2 * L * B; i++)
        state[i] = start[i];
    for (long t = 0; t + 1 < LENGTH; t++) {
        for (long j = 0; j < B; j++)
            input[j] = x[t * B + j] * extra[j];
        for (long i = 0; i < L; i++) {
            long w = 2 * i * 4 * B, bias = w + 4 * B, hidden = 2 * i * B, cell = hidden + B;
            for (long j = 0; j < B; j++) {
                double forget = sigmoid(input[j] * weights[w + j] + weights[bias + j]);
                double in = sigmoid(state[hidden + j] * weights[w + B + j] + weights[bias + B + j]);
                double give = sigmoid(input[j] * weights[w + 2 * B + j] + weights[bias + 2 * B + j]);
                double change = tanh(state[hidden + j] * weights[w + 3 * B + j] + weights[bias + 3 * B + j]);
                state[cell + j] = state[cell + j] * forget + in * change;
                input[j] = state[hidden + j] = give * tanh(state[cell + j]);
            }
        }
        double sum = 2, targets = 0;
        for (long j = 0; j < B; j++) {
            double y = input[j] * extra[B + j] + extra[2 * B + j];
            sum += exp(y);
            total += x[(t + 1) * B + j] * y;
            targets += x[(t + 1) * B + j];
        }
        total -= targets * log(sum);
    }
    out[0] = -total / ((LENGTH - 1) * B);
}
