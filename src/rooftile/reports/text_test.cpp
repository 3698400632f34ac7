#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rooftile/reports/reports.h"
#include "rooftile/reports/sample_report.h"
#include "rooftile/reports/trace_words.h"

namespace rooftile {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(TextReport, RangeComesBeforeTheNumberAndTheBudgetIsJudged) {
  const std::string text = render_text(sample_report());
  EXPECT_THAT(text,
              HasSubstr("Expected time 8.1–12 ms, likely 10.0 ms; over the budget of 9.00 ms"));
  // 3.5 TFLOP in 10 ms against a peak of 989.4 TFLOP/s.
  EXPECT_THAT(text, HasSubstr("3.50 TFLOP at 350 TFLOP/s, 35 % of the bf16 peak"));
}

TEST(TextReport, ADecodeStepSaysWhoRunsIt) {
  Report report = sample_report();
  EXPECT_THAT(render_text(report), Not(HasSubstr("CUDA graphs")));
  report.mode = Mode::decode;
  EXPECT_THAT(render_text(report),
              AllOf(HasSubstr("of an engine with CUDA graphs"), HasSubstr("behind the kernels")));
  report.host.high = milliseconds(30);
  EXPECT_THAT(render_text(report), Not(HasSubstr("behind the kernels")));
}

// Jetson and GB10.
TEST(TextReport, MemoryThatTheCpuSharesIsNamed) {
  Report report = sample_report();
  EXPECT_THAT(render_text(report), Not(HasSubstr("shared with")));
  report.memory.shared_with_cpu = true;
  EXPECT_THAT(render_text(report), HasSubstr("usable, shared with what runs on the CPU"));
}

// One rank does not tell whether it sent or waited.
TEST(TextReport, CommunicationOfUnknownSizeMayBeWaiting) {
  TraceSummary trace;
  trace.time.span = milliseconds(10);
  trace.time.exposed_communication = milliseconds(5);
  trace.collectives.emplace_back().exposed = milliseconds(5);
  const auto first_row = [&](bool is_of_several) {
    return pass_table(trace, is_of_several).rows.at(0).at(0);
  };
  EXPECT_EQ(first_row(false), "communication of unknown size, or waiting in it");
  EXPECT_EQ(first_row(true), "communication, not overlapped");
  const auto lines_of = [&] {
    Report report = sample_report();
    report.findings.clear();
    trace.kernels = 1;
    report.traces = TraceList({trace});
    return render_text(report);
  };
  EXPECT_THAT(lines_of(), HasSubstr("no recorded size, or waits for others, for 50 % of"));
  trace.collectives.front().shape.in_elements = 1000;
  EXPECT_EQ(first_row(false), "communication, not overlapped");
  EXPECT_THAT(lines_of(), Not(HasSubstr("waits for others")));
  trace.time.rank_waiting = milliseconds(4);
  EXPECT_THAT(lines_of(), HasSubstr("This rank waits for others for 40 % of"));
}

TEST(PassTable, NamesTheHostsWorkWhereOneNameIsMostOfIt) {
  TraceSummary trace;
  trace.time.span = milliseconds(10);
  trace.time.idle_by_cause = {{IdleCause::host_work, milliseconds(5)}};
  const auto row_with = [&](const char* name, double exposed_ms) {
    trace.host_work = {{.name = name, .exposed = milliseconds(exposed_ms)}};
    const TextTable table = pass_table(trace, false);
    return table.rows.back().at(0);
  };
  EXPECT_EQ(row_with("preprocess", 4.5), "idle: the host in preprocess");
  EXPECT_EQ(row_with("preprocess", 3), "idle: the host's own code, or waiting outside CUDA");
  EXPECT_EQ(row_with("aten::cat", 4.5), "idle: the host in aten::cat");
  EXPECT_EQ(row_with("aten::cat", 3), "idle: the host in operators that launch nothing");
  EXPECT_EQ(row_with("aten::cat", 1),
            "idle: operators that launch nothing, or the host's own code");
}

TEST(TextReport, LoaderSettingsDoNotChangeTheModel) {
  Report report = sample_report();
  Finding& finding = report.findings.front();
  finding.rule = "input_pipeline/loader-stall";
  finding.fix = {"Load in worker processes", Exactness::changes_training};
  EXPECT_THAT(render_text(report), HasSubstr("order or augmentation of samples"));
}

// A loop of a library's: the script alone does not say that it trains.
TEST(TextReport, WhatARunShowsIsNotDeniedByItsScript) {
  Report report = sample_report();
  report.scripts = SourceSummary{.files = 1, .lines = 20, .programs = 1};
  EXPECT_THAT(render_text(report), AllOf(HasSubstr("1 Python file with training code, 20 lines"),
                                         Not(HasSubstr("on a GPU"))));
  report.scripts->training = 1;
  EXPECT_THAT(render_text(report), HasSubstr("1 of 1 program trains on a GPU"));
}

TEST(TextReport, InformationAndEvidenceNeedVerbose) {
  EXPECT_THAT(render_text(sample_report()),
              AllOf(Not(HasSubstr("info  ")), Not(HasSubstr("ridge"))));
  EXPECT_THAT(render_text(sample_report(), {.verbose = true}),
              AllOf(HasSubstr("sizing/last-wave"), HasSubstr("the GPU's ridge is 295")));
}

TEST(TextReport, LinesFitTheWidth) {
  for (const int width : {80, 100, 140}) {
    const std::string text = render_text(sample_report(), {.verbose = true, .width = width});
    std::size_t start = 0;
    for (std::size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
      EXPECT_LE(display_width(text.substr(start, end - start)), width) << text.substr(start);
    }
  }
}

TEST(TextReport, ColourChangesNoLetter) {
  const std::string plain = render_text(sample_report(), {.verbose = true});
  std::string coloured = render_text(sample_report(), {.colour = true, .verbose = true});
  EXPECT_NE(plain, coloured);
  for (std::size_t at; (at = coloured.find('\033')) != std::string::npos;) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  EXPECT_EQ(plain, coloured);
}

TEST(TextReport, NothingToChangeIsAnAnswer) {
  const std::string text = render_text(sample_clean_report());
  EXPECT_THAT(text,
              AllOf(HasSubstr("No change worth making."), HasSubstr("not calibrated on this GPU")));
}

// What is said above the table is a change worth making.
TEST(TextReport, LaunchesAreAChange) {
  Report report = sample_report();
  report.findings.clear();
  report.launch_bound = true;
  EXPECT_THAT(render_text(report), HasSubstr("No change worth making besides the launches."));
}

TEST(TextReport, UnknownTimeIsNotZero) {
  const std::string text = render_text(sample_unknown_report());
  EXPECT_THAT(text, AllOf(HasSubstr("Expected time unknown: only 0 of 1"),
                          HasSubstr("Not judged: only 0 of 1"),
                          HasSubstr("Times cover 0 of 1 operations"), Not(HasSubstr("0 s"))));
}

TEST(TextReport, ATerminalShowsBarsAndLinks) {
  TextStyle style;
  EXPECT_THAT(render_text(sample_report(), style), Not(HasSubstr("█")));
  style.terminal = style.links = true;
  const std::string text = render_text(sample_report(), style);
  EXPECT_THAT(text, AllOf(HasSubstr("75 %  ███████████████\n"), HasSubstr("\033]8;;file:///"),
                          HasSubstr("/gpt.txt#3\033\\gpt.txt:3\033]8;;\033\\")));
}

TEST(TextReport, SilenceNamesWhatAnotherPrecisionSaves) {
  Report report = sample_clean_report();
  Finding finding;
  finding.rule = "gemm/sixteen-bit-weights";
  finding.fix.exactness = Exactness::changes_numerics;
  const Seconds half = 0.5 * report.total.expected;
  finding.saving = {half, half, half};
  report.findings = {finding};
  EXPECT_THAT(render_text(report), HasSubstr("No change worth making in this precision; "
                                             "gemm/sixteen-bit-weights would save about 50 %."));
  report.not_judged_because = "another process held the GPU";
  EXPECT_THAT(render_text(report), HasSubstr("Not judged: another process held the GPU."));
  report.not_judged_because = "";
  // Of a report without times, as one on scripts is, nothing can be said in percent.
  report.total = {};
  report.findings.front().saving = {};
  EXPECT_THAT(render_text(report), HasSubstr("No change worth making."));
}

TEST(TextReport, SilenceOnARecordingNamesTheLargestPartBesideCompute) {
  Report report = sample_clean_report();
  TraceSummary trace;
  trace.kernels = 1;
  trace.time.span = milliseconds(10);
  trace.time.compute = milliseconds(9);
  trace.time.exposed_communication = milliseconds(1);
  report.traces = TraceList({trace});
  EXPECT_THAT(render_text(report), HasSubstr("No rule finds a change worth making (the largest "
                                             "part beside compute: communication, not "
                                             "overlapped, 10 %)."));
  trace.time.exposed_communication = milliseconds(0.4);
  report.traces = TraceList({trace});
  EXPECT_THAT(render_text(report), HasSubstr("No rule finds a change worth making."));
}

TEST(TextReport, ScriptsAloneHaveNoMode) {
  Report report = sample_clean_report();
  report.scripts.emplace();
  report.coverage = {};
  const std::string text = render_text(report);
  EXPECT_THAT(text, HasSubstr(" on " + report.device.name));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("inference")), Not(HasSubstr("Expected time"))));
}

TEST(TextReport, ARepeatedFixIsNotRepeated) {
  Report report = sample_report();
  const std::string once = render_text(report);
  report.findings.insert(report.findings.begin(), report.findings.front());
  const std::string twice = render_text(report);
  EXPECT_THAT(once, Not(HasSubstr("as above")));
  EXPECT_EQ(twice.find("Fix: Pad"), twice.rfind("Fix: Pad"));
  EXPECT_THAT(twice, HasSubstr("Fix: as above."));
}

TEST(TextReport, LastLineIsTheNextStep) {
  EXPECT_THAT(render_text(sample_report(), {.width = 0}),
              EndsWith("explain gemm/unaligned-row-stride; --verbose shows 1 more for information "
                       "(sizing/last-wave)\n"));
}

TEST(TextReport, HostileNamesCannotDriveTheTerminal) {
  for (const bool verbose : {false, true}) {
    const std::string text = render_text(sample_hostile_report(), {.verbose = verbose});
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    EXPECT_THAT(text, Not(HasSubstr("\xc2\x9b")));
  }
}

TEST(MarkdownReport, HostileNamesAreNoMarkup) {
  const std::string text = render_markdown(sample_hostile_report());
  EXPECT_THAT(text,
              AllOf(HasSubstr("\\<b\\>"), Not(HasSubstr("\n## x")), Not(HasSubstr("\n- Op"))));
}

TEST(RenderDoc, HeadingsParagraphsListsAndCode) {
  EXPECT_EQ(render_doc("\n## What it finds\nOne\ntwo **bold**.\n\n- first\n  more\n- second\n"
                       "1. numbered\n\n```\nx = 1\n```\n| a | b |\n|---|---|\n",
                       {.width = 30}),
            "What it finds\n"
            "  One two bold.\n"
            "\n"
            "  - first more\n"
            "  - second\n"
            "  1. numbered\n"
            "\n"
            "    x = 1\n"
            "    | a | b |\n"
            "    |---|---|\n");
  EXPECT_EQ(
      render_doc("Hidden sizes in multiples of\n32. On Turing never.\n\n1. first\n2. second\n"),
      "  Hidden sizes in multiples of 32. On Turing never.\n\n  1. first\n  2. second\n");
}

// CommonMark 0.31, section 5.2: only an item "1." may interrupt a paragraph.
TEST(RenderDoc, ANumberAtTheStartOfALineIsNoListItem) {
  EXPECT_EQ(render_doc("20 for 96, 10 for\n32. On Turing\nnever.\n- batch\n  64. Or less\n", {}),
            "  20 for 96, 10 for 32. On Turing never.\n"
            "  - batch 64. Or less\n");
  EXPECT_EQ(render_doc("Either\n1. this\n2. or that\n", {}), "  Either\n  1. this\n  2. or that\n");
}

}  // namespace
}  // namespace rooftile
