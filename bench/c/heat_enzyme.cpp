// POINTS, STEPS
void heat(enzyme::tensor<double, 1>& out, const enzyme::tensor<double, POINTS>& start, const enzyme::tensor<double, 1>& rate)
{
    double u[POINTS], next[POINTS], k = rate[0], sum = 0;
    for (long i = 0; i < POINTS; i++)
        u[i] = next[i] = start[i];
    for (long t = 0; t < STEPS; t++) {
        for (long i = 1; i < POINTS - 1; i++)
            next[i] = u[i] + k * (u[i - 1] - 2 * u[i] + u[i + 1]);
        for (long i = 1; i < POINTS - 1; i++)
            u[i] = next[i];
    }
    for (long i = 0; i < POINTS; i++)
        sum += u[i] * u[i];
    out[0] = sum;
}
