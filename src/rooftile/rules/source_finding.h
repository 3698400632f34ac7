// How rules on training scripts build their findings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rooftile/rules/rule.h"
#include "rooftile/workload/source_edits.h"
#include "rooftile/workload/source_facts.h"

namespace rooftile {

// A finding at the line of the call's name, the statement or the byte. In a notebook the message
// gets the cell and line.
Finding finding_at(const source::Call& call, std::string message, Fix fix);
Finding finding_at(const source::Statement& statement, std::string message, Fix fix);
Finding finding_at(const source::File& file, std::uint32_t byte, std::string_view node,
                   std::string message, Fix fix);

// "line 31", or "model.py:31" where it is another file than `from`; in a notebook "cell 3, line 2".
std::string place_text(const source::Call& call, const source::File& from);
std::string place_text(const source::Statement& statement, const source::File& from);

// The expression as written, on one line and shortened; "the value" for null.
std::string code_text(const source::File& file, const source::Expr* expr);
// The expression for an edit: whole, as it is written; empty for null.
std::string_view whole_code(const source::File& file, const source::Expr* expr);
// The first, for what stands before the call's last dot: "self.scaler".
std::string receiver_text(const source::Call& call);

// Adds findings on loaders that only an evaluation reads. They are information, but beside one of
// the training in the same file, with which they are mended.
void add_of_evaluation(std::vector<Finding> of_evaluation, std::vector<Finding>& findings);

// Says of which training step a wait for the GPU is a part.
void add_step(const source::SourceFacts& facts, const source::Statement& wait, Finding& finding);

// Adds what a machine would change. Nothing is added where there is no edit, and for a notebook or
// configuration, whose text is not the file's; the fix then has no edits at all.
void add_edit(const std::optional<source::SourceEdit>& edit, Fix& fix);

}  // namespace rooftile
