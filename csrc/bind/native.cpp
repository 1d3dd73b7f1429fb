// The Python module `_native`: addresses and numbers in, nothing else; tensors stay on the Python side.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "mixprec/kernels.h"

namespace nb = nanobind;
using namespace mixprec;

namespace {

template <class T>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

Matrix matrix(std::uintptr_t data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
  return {at<const void>(data), dtype, rows, cols};
}

void bind_enums(nb::module_& m) {
  nb::enum_<Dtype>(m, "Dtype").value("f32", Dtype::f32).value("bf16", Dtype::bf16).value("f16", Dtype::f16);
  nb::enum_<Rounding>(m, "Rounding")
      .value("nearest_even", Rounding::nearest_even)
      .value("toward_zero", Rounding::toward_zero)
      .value("stochastic", Rounding::stochastic);
  nb::enum_<Granularity>(m, "Granularity")
      .value("none", Granularity::none)
      .value("tensor", Granularity::tensor)
      .value("row", Granularity::row)
      .value("block", Granularity::block);
  nb::enum_<ScaleRule>(m, "ScaleRule")
      .value("floor", ScaleRule::floor)
      .value("ceil", ScaleRule::ceil)
      .value("rceil", ScaleRule::rceil)
      .value("even", ScaleRule::even)
      .value("two_level", ScaleRule::two_level);
  nb::enum_<Level>(m, "Level")
      .value("plain", Level::plain)
      .value("avx2", Level::avx2)
      .value("avx512", Level::avx512);
}

void bind_structs(nb::module_& m) {
  nb::class_<Element>(m, "Element")
      .def("__init__",
           [](Element* self, int mantissa_bits, int min_exponent, int max_exponent, double max_value, double overflow,
              bool negative_zero) {
             new (self) Element{mantissa_bits,
                                min_exponent,
                                max_exponent,
                                static_cast<float>(max_value),
                                static_cast<float>(overflow),
                                negative_zero};
           },
           nb::kw_only(), nb::arg("mantissa_bits"), nb::arg("min_exponent"), nb::arg("max_exponent"),
           nb::arg("max_value"), nb::arg("overflow"), nb::arg("negative_zero"));
  nb::class_<Cast>(m, "Cast").def(
      "__init__",
      [](Cast* self, const Element& element, Rounding rounding, Granularity granularity, std::int64_t outer,
         std::int64_t reduction, ScaleRule rule, double target, double scale_max) {
        new (self) Cast{element, rounding, granularity, outer, reduction, rule, target, scale_max};
      },
      nb::kw_only(), nb::arg("element"), nb::arg("rounding"), nb::arg("granularity"), nb::arg("outer"),
      nb::arg("reduction"), nb::arg("rule"), nb::arg("target"), nb::arg("scale_max"));
  nb::class_<Encoding>(m, "Encoding")
      .def("__init__",
           [](Encoding* self, int bits, bool integer, std::uint32_t nan, std::uint32_t infinity) {
             new (self) Encoding{bits, integer, nan, infinity};
           },
           nb::kw_only(), nb::arg("bits"), nb::arg("integer"), nb::arg("nan"), nb::arg("infinity"));
  nb::class_<Random>(m, "Random")
      .def("__init__", [](Random* self, std::uint64_t seed, std::uint64_t offset) { new (self) Random{seed, offset}; },
           nb::arg("seed"), nb::arg("offset"));
  nb::class_<Run>(m, "Run").def(
      "__init__", [](Run* self, int threads, Level level) { new (self) Run{threads, level}; }, nb::arg("threads"),
      nb::arg("level"));
  nb::class_<Matrix>(m, "Matrix")
      .def("__init__",
           [](Matrix* self, std::uintptr_t data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
             new (self) Matrix(matrix(data, dtype, rows, cols));
           },
           nb::arg("data"), nb::arg("dtype"), nb::arg("rows"), nb::arg("cols"));
  nb::class_<Scaled>(m, "Scaled")
      .def("__init__",
           [](Scaled* self, std::uintptr_t carrier, std::uintptr_t outer, std::uintptr_t block_scales, bool apply_scale) {
             new (self) Scaled{at<float>(carrier), at<float>(outer), at<float>(block_scales), apply_scale};
           },
           nb::arg("carrier"), nb::arg("outer"), nb::arg("block_scales") = 0, nb::arg("apply_scale") = true);
}

void bind_rounding(nb::module_& m) {
  using Free = nb::call_guard<nb::gil_scoped_release>;
  m.def("cpu_level", &cpu_level);
  m.def("has_level", &has_level, nb::arg("level"));
  m.def("expect_writes",
        [](std::uintptr_t data, std::int64_t bytes) { expect_writes(at<void>(data), bytes); }, nb::arg("data"),
        nb::arg("bytes"));
  m.def("amax", &amax, nb::arg("x"), nb::arg("run"), Free());
  m.def("random_words",
        [](const Random& random, std::int64_t n, std::uintptr_t words, const Run& run) {
          random_words(random, n, at<std::uint32_t>(words), run);
        },
        nb::arg("random"), nb::arg("n"), nb::arg("words"), nb::arg("run"), Free());
  m.def("round",
        [](const Matrix& x, const Cast& cast, const Random& random, std::uintptr_t carrier, const Run& run) {
          round(x, cast, random, at<float>(carrier), run);
        },
        nb::arg("x"), nb::arg("cast"), nb::arg("random"), nb::arg("carrier"), nb::arg("run"), Free());
  m.def("scaled", &scaled, nb::arg("x"), nb::arg("cast"), nb::arg("axis"), nb::arg("random"), nb::arg("out"),
        nb::arg("run"), Free());
  m.def("scaled_both", &scaled_both, nb::arg("x"), nb::arg("cast_cols"), nb::arg("random_cols"), nb::arg("along_cols"),
        nb::arg("cast_rows"), nb::arg("random_rows"), nb::arg("along_rows"), nb::arg("run"), Free());
  m.def("hadamard",
        [](const Matrix& x, int size, std::uintptr_t signs, int axis, bool inverse, std::uintptr_t y, const Run& run) {
          hadamard(x, size, at<const float>(signs), axis, inverse, at<float>(y), run);
        },
        nb::arg("x"), nb::arg("size"), nb::arg("signs"), nb::arg("axis"), nb::arg("inverse"), nb::arg("y"),
        nb::arg("run"), Free());
}

void bind_codes(nb::module_& m) {
  using Free = nb::call_guard<nb::gil_scoped_release>;
  m.def("packed_bytes", &packed_bytes, nb::arg("n"), nb::arg("bits"));
  m.def("pack",
        [](std::uintptr_t values, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
           const Encoding& encoding, std::uintptr_t codes, const Run& run) {
          pack(at<const float>(values), rows, cols, transpose, element, encoding, at<std::uint8_t>(codes), run);
        },
        nb::arg("values"), nb::arg("rows"), nb::arg("cols"), nb::arg("transpose"), nb::arg("element"),
        nb::arg("encoding"), nb::arg("codes"), nb::arg("run"), Free());
  m.def("unpack",
        [](std::uintptr_t codes, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
           const Encoding& encoding, std::uintptr_t values, const Run& run) {
          unpack(at<const std::uint8_t>(codes), rows, cols, transpose, element, encoding, at<float>(values), run);
        },
        nb::arg("codes"), nb::arg("rows"), nb::arg("cols"), nb::arg("transpose"), nb::arg("element"),
        nb::arg("encoding"), nb::arg("values"), nb::arg("run"), Free());
  m.def("encode_scales",
        [](std::uintptr_t scales, std::int64_t n, ScaleRule rule, std::uintptr_t codes) {
          encode_scales(at<const float>(scales), n, rule, at<std::uint8_t>(codes));
        },
        nb::arg("scales"), nb::arg("n"), nb::arg("rule"), nb::arg("codes"), Free());
  m.def("decode_scales",
        [](std::uintptr_t codes, std::int64_t n, ScaleRule rule, std::uintptr_t scales) {
          decode_scales(at<const std::uint8_t>(codes), n, rule, at<float>(scales));
        },
        nb::arg("codes"), nb::arg("n"), nb::arg("rule"), nb::arg("scales"), Free());
  m.def("apply_scales",
        [](std::uintptr_t values, std::int64_t rows, std::int64_t cols, const Cast& cast, int axis,
           std::uintptr_t block_scales, std::uintptr_t outer, const Run& run) {
          apply_scales(at<float>(values), rows, cols, cast, axis, at<const float>(block_scales), at<const float>(outer),
                       run);
        },
        nb::arg("values"), nb::arg("rows"), nb::arg("cols"), nb::arg("cast"), nb::arg("axis"), nb::arg("block_scales"),
        nb::arg("outer"), nb::arg("run"), Free());
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // casts live in Python caches until the interpreter ends
  m.doc() = "Rounding kernels on addresses; see csrc/include/mixprec/kernels.h.";
  bind_enums(m);
  bind_structs(m);
  bind_rounding(m);
  bind_codes(m);
}
