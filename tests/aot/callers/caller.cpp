// Values through the C++ header: vectors that own the results, and exceptions.
#include <iostream>

#include "all.hpp"

int main()
{
    std::vector<double> w{0.5, 0.1}, x{1, 2, 3}, y{1, 1, 1};
    auto out = all_library::curve_grad(w, x, y);
    std::cout << "gradient of " << out.grad_w.size() << "\n";
    y.pop_back();
    try {
        all_library::curve_grad(w, x, y);
    } catch (const all_library::Error &error) {
        std::cout << "caught " << error.kind() << ": " << error.what() << "\n";
    }
    return 0;
}
