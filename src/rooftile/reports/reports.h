// Renderers: a Report in, text out. Nothing is computed here.
#pragma once

#include <string>

#include "rooftile/findings/report.h"

namespace rooftile {

struct TextStyle {
  bool colour = false;
  bool verbose = false;  // info findings, evidence
};

std::string render_text(const Report& report, const TextStyle& style = {});
std::string render_json(const Report& report);      // docs/formats/report.schema.json
std::string render_sarif(const Report& report);     // SARIF 2.1.0
std::string render_markdown(const Report& report);

std::string render_ops_text(const Report& report);
std::string render_ops_csv(const Report& report);   // docs/formats/ops.md
std::string render_ops_json(const Report& report);

}  // namespace rooftile
