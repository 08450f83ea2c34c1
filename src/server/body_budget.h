// BodyBudget: bounds the bytes that the bodies of all connections hold at once. A body acquires its share as
// it arrives and releases it once it is parsed into a request. Use it only on the I/O thread.
#pragma once

#include <cstddef>
#include <utility>

namespace ft::server {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : left_(limit) {}
  std::size_t left() const { return left_; }

  /// The bytes of one body; the destructor returns them to the budget.
  class Share {
   public:
    Share() = default;
    explicit Share(BodyBudget& budget) : budget_(&budget) {}
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept {
      std::swap(budget_, other.budget_), std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Share() {
      if (budget_ != nullptr) budget_->left_ += bytes_;
    }
    /// Grows the share; it never shrinks. False, and unchanged, if the budget has too little left.
    bool grow_to(std::size_t bytes) {
      if (bytes <= bytes_) return true;
      if (bytes - bytes_ > budget_->left_) return false;
      budget_->left_ -= bytes - bytes_;
      bytes_ = bytes;
      return true;
    }

   private:
    BodyBudget* budget_ = nullptr;
    std::size_t bytes_ = 0;
  };

 private:
  std::size_t left_;
};

}  // namespace ft::server
