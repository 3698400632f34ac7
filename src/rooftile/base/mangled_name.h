// Names as the C++ compiler writes them into a program: _ZN2at6native13reduce_kernelILi512EEEvT_.
#pragma once

#include <string>
#include <string_view>

namespace rooftile {

// The function of a mangled name, without scopes and arguments: "reduce_kernel". Of one that only a
// template argument tells from others, as cutlass::Kernel is, that argument; of kernel, with the
// scope. Empty where the name is not mangled. Substitutions are not followed: they make names
// of a few bytes expand to any length.
std::string function_of_mangled(std::string_view name);

// "softmax_kernel" of "void at::native::softmax_kernel<float>(int)", mangled or not, and
// "gemvx::kernel" of "internal::gemvx::kernel<int>"; of a function that only its template argument
// names, that argument.
std::string function_of_kernel(std::string_view name);

}  // namespace rooftile
