// Renderers: a Report in, text out. Nothing is judged here; numbers are scaled.
#pragma once

#include <string>
#include <string_view>

#include "rooftile/base/quantity_text.h"
#include "rooftile/findings/comparison.h"
#include "rooftile/findings/report.h"
#include "rooftile/findings/sweep.h"
#include "rooftile/findings/tuning.h"
#include "rooftile/reports/layout.h"

namespace rooftile {

struct TextStyle {
  bool colour = false;
  bool verbose = false;   // info findings, evidence
  int width = 100;        // columns; 0 never breaks or cuts
  bool terminal = false;  // tables are cut to the width, and shares have bars, only there
  bool links = false;     // places in files are hyperlinks (OSC 8)
};

std::string render_text(const Report& report, const TextStyle& style = {});
std::string render_json(const Report& report);   // docs/formats/report.schema.json
std::string render_sarif(const Report& report);  // SARIF 2.1.0
std::string render_markdown(const Report& report);
std::string render_github(const Report& report);  // commands of GitHub Actions

// What a row of a trace's table stands for.
enum class OpsRows : std::uint8_t { op, module, annotation, kernel };

struct OpsTable {
  OpsRows rows = OpsRows::op;
  bool with_kernels = false;  // under each operator
};

std::string render_ops_text(const Report& report, const TextStyle& style = {},
                            const OpsTable& table = {});
std::string render_ops_csv(const Report& report,
                           OpsRows rows = OpsRows::op);  // docs/formats/ops.md
std::string render_ops_json(const Report& report);       // docs/formats/ops.schema.json

std::string render_comparison_text(const Comparison& comparison, const TextStyle& style = {});
std::string render_comparison_json(
    const Comparison& comparison);  // docs/formats/compare.schema.json

std::string render_sweep_text(const Sweep& sweep, const TextStyle& style = {});
std::string render_sweep_csv(const Sweep& sweep);   // docs/sweep.md
std::string render_sweep_json(const Sweep& sweep);  // docs/formats/sweep.schema.json

std::string render_tuning_text(const Tuning& tuning, const TextStyle& style = {});
std::string render_tuning_csv(const Tuning& tuning);   // docs/tune.md
std::string render_tuning_json(const Tuning& tuning);  // docs/formats/tune.schema.json

// Markdown as a terminal shows it: headings, wrapped paragraphs and lists; code and tables as
// they are.
std::string render_doc(std::string_view markdown, const TextStyle& style = {});

}  // namespace rooftile
