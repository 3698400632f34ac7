// Turns the events of a PyTorch trace into the rows of a timeline.
#pragma once

#include <optional>
#include <string_view>

#include "rooftile/formats/kineto/kineto_stream.h"
#include "rooftile/readers/kineto/arguments.h"
#include "rooftile/readers/kineto/event_class.h"
#include "rooftile/readers/kineto/tables.h"
#include "rooftile/readers/kineto/trace_header.h"
#include "rooftile/workload/timeline.h"

namespace rooftile {

class TimelineBuilder final : public KinetoVisitor {
 public:
  explicit TimelineBuilder(Timeline& timeline)
      : timeline_(timeline),
        names_(timeline.strings),
        threads_(timeline.threads),
        streams_(timeline.streams),
        tables_(timeline) {}

  void on_event(const KinetoEvent& event) override;
  void on_member(std::string_view key, std::string_view value) override { header_.add(key, value); }
  // To be called once, behind the last event.
  void finish();
  // An event of a kind that this reader knows was there, used or not.
  bool knows_events() const { return knows_events_; }

 private:
  struct Span {
    Nanoseconds start = 0, duration = 0;
  };

  std::optional<Nanoseconds> start_of(const KinetoEvent& event);
  std::optional<Span> span_of(const KinetoEvent& event);
  std::uint16_t thread_of(const KinetoEvent& event);
  std::uint16_t stream_of(const KinetoEvent& event, const KnownArgs& args);

  void add_op(const KinetoEvent& event, HostKind kind);
  void add_python(const KinetoEvent& event);
  void add_call(const KinetoEvent& event);
  void add_gpu(const KinetoEvent& event, GpuKind kind);
  void add_overhead(const KinetoEvent& event);
  void add_memory(const KinetoEvent& event);
  void skip_unknown(const KinetoEvent& event);
  void join_python_threads();

  Timeline& timeline_;
  TraceHeader header_;
  NameTable names_;
  ThreadTable threads_;
  StreamTable streams_;
  IdTable ids_;
  ArgumentTables tables_;
  std::optional<Nanoseconds> zero_;
  bool knows_events_ = false;
  std::size_t unknown_categories_ = 0;
};

}  // namespace rooftile
