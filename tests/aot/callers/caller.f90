! The value and the gradient of a curve's fit.
program caller
    use all_library
    use, intrinsic :: iso_c_binding
    implicit none
    real(c_double) :: w(2) = [0.5d0, 0.1d0], x(3) = [1d0, 2d0, 3d0], y(3) = [1d0, 1d0, 1d0], value, gradient(2)
    if (curve_grad(w, 2_c_int64_t, x, 3_c_int64_t, y, 3_c_int64_t, value, gradient) /= JITAD_OK) error stop 1
    print '(3ES25.16)', value, gradient
end program
