// The Python module `_native`: addresses and numbers in, nothing else; tensors stay on the Python side.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "mixprec/kernels.h"
#include "optimizer.h"

namespace nb = nanobind;
using namespace mixprec;

namespace {

using Free = nb::call_guard<nb::gil_scoped_release>;

template <class T>
T* at(std::uintptr_t address) {
  return reinterpret_cast<T*>(address);
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
  nb::enum_<ScaleKind>(m, "ScaleKind")
      .value("none", ScaleKind::none)
      .value("fp32", ScaleKind::fp32)
      .value("power", ScaleKind::power)
      .value("floating", ScaleKind::floating);
  nb::enum_<ExponentRule>(m, "ExponentRule")
      .value("floor", ExponentRule::floor)
      .value("ceil", ExponentRule::ceil)
      .value("rceil", ExponentRule::rceil)
      .value("even", ExponentRule::even)
      .value("quest", ExponentRule::quest);
  nb::enum_<Level>(m, "Level")
      .value("plain", Level::plain)
      .value("avx2", Level::avx2)
      .value("avx512", Level::avx512);
}

Table table_of(const std::vector<double>& values, const std::vector<int>& codes) {
  if (values.size() != codes.size() || values.size() < 2 || values.size() > 256)
    throw std::invalid_argument("a table has 2 to 256 values and a code for each");
  Table table{};
  table.size = static_cast<int>(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    table.values[i] = static_cast<float>(values[i]);
    table.codes[i] = static_cast<std::uint8_t>(codes[i]);
  }
  return table;
}

void bind_formats(nb::module_& m) {
  nb::class_<Table>(m, "Table")
      .def("__init__",
           [](Table* self, const std::vector<double>& values, const std::vector<int>& codes) {
             new (self) Table(table_of(values, codes));
           },
           nb::arg("values"), nb::arg("codes"));
  nb::class_<Grid>(m, "Grid").def(
      "__init__",
      [](Grid* self, int mantissa_bits, int min_exponent, int max_exponent, double max_value, double overflow,
         bool negative_zero, int bits, bool is_signed, bool integer, std::uint32_t nan_code,
         std::uint32_t infinity_code, const Table* table) {
        if (bits < 2 || bits > 32) throw std::invalid_argument("a code has 2 to 32 bits");
        new (self) Grid{mantissa_bits, min_exponent, max_exponent, static_cast<float>(max_value),
                        static_cast<float>(overflow), negative_zero, bits, is_signed, integer, nan_code,
                        infinity_code, table};
      },
      nb::kw_only(), nb::arg("mantissa_bits"), nb::arg("min_exponent"), nb::arg("max_exponent"), nb::arg("max_value"),
      nb::arg("overflow"), nb::arg("negative_zero"), nb::arg("bits"), nb::arg("is_signed"), nb::arg("integer"),
      nb::arg("nan_code"), nb::arg("infinity_code"), nb::arg("table").none(), nb::keep_alive<1, 13>());
  nb::class_<Cast>(m, "Cast").def(
      "__init__",
      [](Cast* self, const Grid& grid, Rounding rounding, Granularity granularity, std::int64_t outer,
         std::int64_t reduction, ScaleKind scale, ExponentRule rule, double target, double second_target,
         double prescale, const Grid* scale_grid, double scale_limit, int transform) {
        new (self) Cast{grid,   rounding,      granularity,
                        outer,  reduction,     scale,
                        rule,   target,        second_target,
                        static_cast<float>(prescale), scale_grid ? *scale_grid : Grid{}, scale_limit,
                        transform};
      },
      nb::kw_only(), nb::arg("grid"), nb::arg("rounding"), nb::arg("granularity"), nb::arg("outer"),
      nb::arg("reduction"), nb::arg("scale"), nb::arg("rule"), nb::arg("target"), nb::arg("second_target"),
      nb::arg("prescale"), nb::arg("scale_grid").none(), nb::arg("scale_limit"), nb::arg("transform"),
      nb::keep_alive<1, 2>());
}

void bind_requests(nb::module_& m) {
  nb::class_<Random>(m, "Random")
      .def("__init__", [](Random* self, std::uint64_t seed, std::uint64_t offset) { new (self) Random{seed, offset}; },
           nb::arg("seed"), nb::arg("offset"));
  nb::class_<Draw>(m, "Draw")
      .def("__init__",
           [](Draw* self, const Random& elements, const Random* signs) {
             new (self) Draw{elements, signs != nullptr, signs ? *signs : Random{}};
           },
           nb::arg("elements"), nb::arg("signs").none());
  nb::class_<Run>(m, "Run").def(
      "__init__", [](Run* self, int threads, Level level) { new (self) Run{threads, level}; }, nb::arg("threads"),
      nb::arg("level"));
  nb::class_<Matrix>(m, "Matrix")
      .def("__init__",
           [](Matrix* self, std::uintptr_t data, Dtype dtype, std::int64_t rows, std::int64_t cols) {
             new (self) Matrix{at<const void>(data), dtype, rows, cols};
           },
           nb::arg("data"), nb::arg("dtype"), nb::arg("rows"), nb::arg("cols"));
  nb::class_<Output>(m, "Output")
      .def("__init__",
           [](Output* self, std::uintptr_t outer, std::uintptr_t carrier, std::uintptr_t codes, std::uintptr_t scales) {
             new (self) Output{at<float>(carrier), at<std::uint8_t>(codes), at<std::uint8_t>(scales), at<float>(outer)};
           },
           nb::kw_only(), nb::arg("outer"), nb::arg("carrier") = 0, nb::arg("codes") = 0, nb::arg("scales") = 0);
  nb::class_<Job>(m, "Job").def(
      "__init__",
      [](Job* self, const Cast& cast, int axis, const Draw& draw, const Output& out, std::int64_t interleaved) {
        new (self) Job{cast, axis, draw, out, interleaved};
      },
      nb::arg("cast"), nb::arg("axis"), nb::arg("draw"), nb::arg("out"), nb::arg("interleaved") = 1,
      nb::keep_alive<1, 2>());
  nb::class_<Probe>(m, "Probe").def(
      "__init__",
      [](Probe* self, const Cast& cast, int axis, const Random& elements, bool delayed, float amax) {
        new (self) Probe{cast, axis, elements, delayed, amax};
      },
      nb::kw_only(), nb::arg("cast"), nb::arg("axis"), nb::arg("elements"), nb::arg("delayed"), nb::arg("amax"),
      nb::keep_alive<1, 2>());
  nb::class_<Stored>(m, "Stored")
      .def("__init__",
           [](Stored* self, std::uintptr_t codes, std::uintptr_t scales, std::uintptr_t outer, std::int64_t rows,
              std::int64_t cols) {
             new (self) Stored{at<const std::uint8_t>(codes), at<const std::uint8_t>(scales), at<const float>(outer),
                               rows, cols};
           },
           nb::kw_only(), nb::arg("codes"), nb::arg("scales"), nb::arg("outer"), nb::arg("rows"), nb::arg("cols"));
}

void bind_kernels(nb::module_& m) {
  m.def("cpu_level", &cpu_level);
  m.def("has_level", &has_level, nb::arg("level"));
  m.def("expect_writes",
        [](std::uintptr_t data, std::int64_t bytes) { expect_writes(at<void>(data), bytes); }, nb::arg("data"),
        nb::arg("bytes"));
  m.def("packed_bytes", &packed_bytes, nb::arg("n"), nb::arg("bits"));
  m.def("amax", &amax, nb::arg("x"), nb::arg("run"), Free());
  m.def("random_words",
        [](const Random& random, std::int64_t n, std::uintptr_t words, const Run& run) {
          random_words(random, n, at<std::uint32_t>(words), run);
        },
        nb::arg("random"), nb::arg("n"), nb::arg("words"), nb::arg("run"), Free());
  m.def("scaled", &scaled, nb::arg("x"), nb::arg("job"), nb::arg("run"), Free());
  m.def("scaled_both", &scaled_both, nb::arg("x"), nb::arg("first"), nb::arg("second"), nb::arg("run"), Free());
  m.def("delayed", &delayed, nb::arg("x"), nb::arg("job"), nb::arg("amax"), nb::arg("run"), Free());
  m.def("statistics",
        [](const Matrix& x, const std::vector<Probe>& probes, std::uintptr_t counts, std::uintptr_t numbers,
           const Run& run) {
          statistics(x, probes.data(), static_cast<int>(probes.size()), at<std::int64_t>(counts),
                     at<double>(numbers), run);
        },
        nb::arg("x"), nb::arg("probes"), nb::arg("counts"), nb::arg("numbers"), nb::arg("run"), Free());
  m.def("hadamard",
        [](const Matrix& x, int size, int axis, bool inverse, const Draw& draw, std::uintptr_t y, const Run& run) {
          hadamard(x, size, axis, inverse, draw, at<float>(y), run);
        },
        nb::arg("x"), nb::arg("size"), nb::arg("axis"), nb::arg("inverse"), nb::arg("draw"), nb::arg("y"),
        nb::arg("run"), Free());
  m.def("dequantize",
        [](const Stored& stored, const Cast& cast, int axis, std::uintptr_t values, const Run& run) {
          dequantize(stored, cast, axis, at<float>(values), run);
        },
        nb::arg("stored"), nb::arg("cast"), nb::arg("axis"), nb::arg("values"), nb::arg("run"), Free());
  m.def("narrow_product",
        [](std::uintptr_t a, std::uintptr_t b, std::int64_t rows, std::int64_t inner, std::int64_t cols,
           int mantissa_bits, bool nearest, std::int64_t promote_every, std::uintptr_t out, const Run& run) {
          const Sums sums{mantissa_bits, nearest, promote_every};
          narrow_product(at<const float>(a), at<const float>(b), rows, inner, cols, sums, at<float>(out), run);
        },
        nb::kw_only(), nb::arg("a"), nb::arg("b"), nb::arg("rows"), nb::arg("inner"), nb::arg("cols"),
        nb::arg("mantissa_bits"), nb::arg("nearest"), nb::arg("promote_every"), nb::arg("out"), nb::arg("run"), Free());
}

}  // namespace

NB_MODULE(_native, m) {
  nb::set_leak_warnings(false);  // casts live in Python caches until the interpreter ends
  m.doc() = "Rounding kernels on addresses; see csrc/include/mixprec/kernels.h.";
  m.attr("BINDINGS") = 3;  // as in src/mixprec/kernels/cpu/_abi.py
  bind_enums(m);
  bind_formats(m);
  bind_requests(m);
  bind_kernels(m);
  bind_optimizer(m);
}
