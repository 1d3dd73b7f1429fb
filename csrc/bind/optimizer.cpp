// An optimizer's step for Python: what a parameter's tensors are is said once, in a Layout; a call brings their addresses,
// in one list for all parameters, as an object for each field would take longer than small tensors' updates.

#include "optimizer.h"

#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "mixprec/optimizer.h"

namespace nb = nanobind;
using namespace mixprec;

namespace {

using Free = nb::call_guard<nb::gil_scoped_release>;
using Places = std::vector<std::int64_t>;

template <class T>
T* at(std::int64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

struct Layout {
  Dtype gradient;
  WeightKind kind;
  Dtype weight;
  std::vector<MomentLayout> moments;
};

constexpr std::size_t kSlotPlaces = 12, kGradientPlaces = 2;

// n, gradient, weight, extra, seed, offset, and of two moments values, scales, powers.
std::vector<Slot> slots_of(const std::vector<Layout>& layouts, const Places& places) {
  if (places.size() != layouts.size() * kSlotPlaces) throw std::invalid_argument("a slot has twelve places");
  std::vector<Slot> slots(layouts.size());
  for (std::size_t s = 0; s < layouts.size(); ++s) {
    const std::int64_t* p = places.data() + s * kSlotPlaces;
    Slot& slot = slots[s];
    slot = {};
    slot.gradient = {layouts[s].gradient, at<const void>(p[1]), p[0]};
    slot.weight = {layouts[s].kind, layouts[s].weight, at<void>(p[2]), at<void>(p[3])};
    slot.random = {static_cast<std::uint64_t>(p[4]), static_cast<std::uint64_t>(p[5])};
    for (std::size_t i = 0; i < layouts[s].moments.size(); ++i)
      slot.moments[i] = {layouts[s].moments[i], at<void>(p[6 + 3 * i]), at<float>(p[7 + 3 * i]),
                         at<std::uint8_t>(p[8 + 3 * i])};
  }
  return slots;
}

void step(const std::vector<Layout>& layouts, const Places& places, const Rule& rule, const Run& run) {
  const auto count = static_cast<std::size_t>(moment_count(rule));
  for (const Layout& layout : layouts)
    if (layout.moments.size() != count) throw std::invalid_argument("a slot has the moments of its rule");
  const std::vector<Slot> slots = slots_of(layouts, places);
  const nb::gil_scoped_release free;
  optimizer_step(slots.data(), static_cast<std::int64_t>(slots.size()), rule, run);
}

// Of each gradient: address, n.
void squares(const std::vector<Dtype>& dtypes, const Places& places, std::int64_t sums, const Run& run) {
  if (places.size() != dtypes.size() * kGradientPlaces) throw std::invalid_argument("a gradient has two places");
  std::vector<Gradient> gradients(dtypes.size());
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    gradients[i] = {dtypes[i], at<const void>(places[2 * i]), places[2 * i + 1]};
  const nb::gil_scoped_release free;
  gradient_squares(gradients.data(), static_cast<std::int64_t>(gradients.size()), at<double>(sums), run);
}

// Addresses of fp32 numbers.
bool counters_are(const Places& places, float value) {
  for (const std::int64_t place : places)
    if (*at<const float>(place) != value) return false;
  return true;
}

void advance_counters(const Places& places) {
  for (const std::int64_t place : places) *at<float>(place) += 1.0f;
}

StoredMoment moment_of(const MomentLayout& layout, std::int64_t values, std::int64_t scales, std::int64_t powers) {
  return {layout, at<void>(values), at<float>(scales), at<std::uint8_t>(powers)};
}

void bind_layouts(nb::module_& m) {
  nb::enum_<WeightKind>(m, "WeightKind")
      .value("plain", WeightKind::plain)
      .value("master", WeightKind::master)
      .value("split", WeightKind::split)
      .value("stochastic", WeightKind::stochastic)
      .value("kahan", WeightKind::kahan);
  nb::enum_<MomentKind>(m, "MomentKind")
      .value("fp32", MomentKind::fp32)
      .value("bf16", MomentKind::bf16)
      .value("e4m3", MomentKind::e4m3)
      .value("dynamic", MomentKind::dynamic);
  nb::class_<MomentLayout>(m, "MomentLayout")
      .def("__init__",
           [](MomentLayout* self, MomentKind kind, int block, bool expand, bool is_signed) {
             if (block != 128 && block != 256) throw std::invalid_argument("a block has 128 or 256 elements");
             new (self) MomentLayout{kind, block, expand, is_signed};
           },
           nb::arg("kind"), nb::arg("block"), nb::arg("expand"), nb::arg("is_signed"));
  nb::class_<Layout>(m, "Layout")
      .def("__init__",
           [](Layout* self, Dtype gradient, WeightKind kind, Dtype weight, const std::vector<MomentLayout>& moments) {
             if (moments.size() > 2) throw std::invalid_argument("a slot has at most two moments");
             new (self) Layout{gradient, kind, weight, moments};
           },
           nb::arg("gradient"), nb::arg("kind"), nb::arg("weight"), nb::arg("moments"));
}

void bind_rules(nb::module_& m) {
  nb::class_<Rule>(m, "Rule");
  m.def("adamw_rule",
        [](float factor, float decay, float beta1, float alpha1, float beta2, float alpha2, float rate,
           float correction, float eps) {
          return Rule{RuleKind::adamw, {factor, decay, beta1, alpha1, beta2, alpha2, rate, correction, eps}, {}};
        },
        nb::kw_only(), nb::arg("factor"), nb::arg("decay"), nb::arg("beta1"), nb::arg("alpha1"), nb::arg("beta2"),
        nb::arg("alpha2"), nb::arg("rate"), nb::arg("correction"), nb::arg("eps"));
  m.def("sgd_rule",
        [](float factor, float weight_decay, float momentum, float alpha, bool nesterov, bool is_first, float lr) {
          return Rule{RuleKind::sgd, {}, {factor, weight_decay, momentum, alpha, lr, nesterov, is_first}};
        },
        nb::kw_only(), nb::arg("factor"), nb::arg("weight_decay"), nb::arg("momentum"), nb::arg("alpha"),
        nb::arg("nesterov"), nb::arg("is_first"), nb::arg("lr"));
}

void bind_keeping(nb::module_& m) {
  m.def("load_weight",
        [](WeightKind kind, Dtype dtype, std::int64_t weight, std::int64_t extra, std::int64_t n, std::int64_t values,
           const Run& run) {
          load_weight({kind, dtype, at<void>(weight), at<void>(extra)}, n, at<float>(values), run);
        },
        nb::kw_only(), nb::arg("kind"), nb::arg("dtype"), nb::arg("weight"), nb::arg("extra"), nb::arg("n"),
        nb::arg("values"), nb::arg("run"), Free());
  m.def("store_weight",
        [](WeightKind kind, Dtype dtype, std::int64_t weight, std::int64_t extra, std::int64_t n, std::int64_t values,
           const Random& random, const Run& run) {
          store_weight({kind, dtype, at<void>(weight), at<void>(extra)}, n, at<const float>(values), random, run);
        },
        nb::kw_only(), nb::arg("kind"), nb::arg("dtype"), nb::arg("weight"), nb::arg("extra"), nb::arg("n"),
        nb::arg("values"), nb::arg("random"), nb::arg("run"), Free());
  m.def("load_moment",
        [](const MomentLayout& layout, std::int64_t stored, std::int64_t scales, std::int64_t powers, std::int64_t n,
           std::int64_t values, const Run& run) {
          load_moment(moment_of(layout, stored, scales, powers), n, at<float>(values), run);
        },
        nb::kw_only(), nb::arg("layout"), nb::arg("stored"), nb::arg("scales"), nb::arg("powers"), nb::arg("n"),
        nb::arg("values"), nb::arg("run"), Free());
  m.def("store_moment",
        [](const MomentLayout& layout, std::int64_t stored, std::int64_t scales, std::int64_t powers, std::int64_t n,
           std::int64_t values, const Run& run) {
          store_moment(moment_of(layout, stored, scales, powers), n, at<const float>(values), run);
        },
        nb::kw_only(), nb::arg("layout"), nb::arg("stored"), nb::arg("scales"), nb::arg("powers"), nb::arg("n"),
        nb::arg("values"), nb::arg("run"), Free());
}

}  // namespace

void bind_optimizer(nb::module_& m) {
  bind_layouts(m);
  bind_rules(m);
  bind_keeping(m);
  m.def("gradient_squares", &squares, nb::arg("dtypes"), nb::arg("places"), nb::arg("sums"), nb::arg("run"));
  m.def("counters_are", &counters_are, nb::arg("places"), nb::arg("value"));
  m.def("advance_counters", &advance_counters, nb::arg("places"));
  m.def("optimizer_step", &step, nb::arg("layouts"), nb::arg("places"), nb::arg("rule"), nb::arg("run"));
}
