// OBSERVATIONS: the cameras and points of the observations are gathered
static inline void one(long i, const enzyme::tensor<double, OBSERVATIONS, 11>& camera,
                       const enzyme::tensor<double, OBSERVATIONS, 3>& point, const enzyme::tensor<double, OBSERVATIONS>& weight,
                       const enzyme::tensor<double, OBSERVATIONS, 2>& feature, double& e0, double& e1)
{
    double r0 = camera[i][0], r1 = camera[i][1], r2 = camera[i][2];
    double v0 = point[i][0] - camera[i][3], v1 = point[i][1] - camera[i][4], v2 = point[i][2] - camera[i][5];
    double square = r0 * r0 + r1 * r1 + r2 * r2, c = 1, s = 1, k = 0.5;
    if (square != 0) {
        double angle = sqrt(square);
        c = cos(angle), s = sin(angle) / angle, k = (1 - c) / square;
    }
    double along = k * (r0 * v0 + r1 * v1 + r2 * v2);
    double x = c * v0 + s * (r1 * v2 - r2 * v1) + along * r0;
    double y = c * v1 + s * (r2 * v0 - r0 * v2) + along * r1;
    double z = c * v2 + s * (r0 * v1 - r1 * v0) + along * r2;
    x /= z, y /= z;
    double rr = x * x + y * y, scale = camera[i][6] * (1 + camera[i][9] * rr + camera[i][10] * rr * rr);
    e0 = weight[i] * (scale * x + camera[i][7] - feature[i][0]);
    e1 = weight[i] * (scale * y + camera[i][8] - feature[i][1]);
}
void residuals(enzyme::tensor<double, OBSERVATIONS, 2>& error, const enzyme::tensor<double, OBSERVATIONS, 11>& camera,
               const enzyme::tensor<double, OBSERVATIONS, 3>& point, const enzyme::tensor<double, OBSERVATIONS>& weight,
               const enzyme::tensor<double, OBSERVATIONS, 2>& feature)
{
    for (long i = 0; i < OBSERVATIONS; i++) {
        double e0, e1;
        one(i, camera, point, weight, feature, e0, e1);
        error[i][0] = e0;
        error[i][1] = e1;
    }
}
// No observation shares what is gathered for another: the gradient of a sum over all is a row of each one's Jacobian.
void weighted(enzyme::tensor<double, 1>& sum, const enzyme::tensor<double, OBSERVATIONS, 11>& camera,
              const enzyme::tensor<double, OBSERVATIONS, 3>& point, const enzyme::tensor<double, OBSERVATIONS>& weight,
              const enzyme::tensor<double, OBSERVATIONS, 2>& feature, const enzyme::tensor<double, 2>& by)
{
    double total = 0;
    for (long i = 0; i < OBSERVATIONS; i++) {
        double e0, e1;
        one(i, camera, point, weight, feature, e0, e1);
        total += by[0] * e0 + by[1] * e1;
    }
    sum[0] = total;
}
