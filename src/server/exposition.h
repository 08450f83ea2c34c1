// Exposition: figures as the text that Prometheus reads. Families come in the order in which they are begun,
// each with its help and type once. Names and labels are the caller's constants; label values are escaped
// here. Source: Prometheus' exposition formats, text-based format 0.0.4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft {

class Exposition {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  /// Begins the family of the samples that follow. A counter's name ends in _total.
  void counter(std::string_view name, std::string_view help) { begin(name, help, "counter"); }
  void gauge(std::string_view name, std::string_view help) { begin(name, help, "gauge"); }
  void sample(double value, const Labels& labels = {}) { line("", value, labels); }

  /// A whole histogram: counts[i] are the observations above bounds[i - 1] and at most bounds[i]. There is
  /// one more count than bounds.
  void histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                 std::span<const std::int64_t> counts, double sum);

  const std::string& text() const { return text_; }

 private:
  void begin(std::string_view name, std::string_view help, std::string_view type);
  void line(std::string_view suffix, double value, const Labels& labels);

  std::string text_, family_;
};

}  // namespace ft
