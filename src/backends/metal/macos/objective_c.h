// Messages to Metal's objects without Apple's headers: typed calls of objc_msgSend. The list of selectors
// that this folder may send is selectors.txt, which a script takes from Apple's metal-cpp. Libraries are
// opened at run time: the program starts on a Mac without Metal too. Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace ft::metal {

using Object = void*;

/// The functions of libobjc and Metal.
struct Runtime {
  Object (*look_up_class)(const char* name) = nullptr;
  void* (*register_selector)(const char* name) = nullptr;
  void (*send)() = nullptr;
  void* (*push_pool)() = nullptr;
  void (*pop_pool)(void* pool) = nullptr;
  Object (*default_device)() = nullptr;

  /// Null: this machine has no Metal.
  static const Runtime* get();
};

/// Three sizes by value, as MTLSize.
struct Size3 {
  std::uint64_t width, height, depth;
};

/// A message's name, looked up once: for messages of every launch.
class Selector {
 public:
  explicit Selector(const char* name) : found_(Runtime::get()->register_selector(name)) {}
  void* get() const { return found_; }

 private:
  void* found_;
};

template <class Returned, class... Given>
Returned message(Object to, Selector selector, Given... given) {
  using Function = Returned (*)(Object, void*, Given...);
  return reinterpret_cast<Function>(Runtime::get()->send)(to, selector.get(), given...);
}
template <class Returned, class... Given>
Returned message(Object to, const char* selector, Given... given) {
  return message<Returned, Given...>(to, Selector(selector), given...);
}

inline Object class_named(const char* name) { return Runtime::get()->look_up_class(name); }

/// NSString from UTF-8; released by the pool.
inline Object text_of(const std::string& text) {
  constexpr std::uint64_t kUtf8 = 4;  // NSUTF8StringEncoding
  return message<Object, const char*, std::uint64_t>(class_named("NSString"),
                                                     "stringWithCString:encoding:", text.c_str(), kUtf8);
}
/// UTF-8 of an NSString; empty for none.
inline std::string utf8_of(Object text) {
  const char* const bytes = text == nullptr ? nullptr : message<const char*>(text, "UTF8String");
  return bytes == nullptr ? std::string() : std::string(bytes);
}
inline std::string sentence_of(Object error) {
  return error == nullptr ? "no reason given" : utf8_of(message<Object>(error, "localizedDescription"));
}

/// Objects that are autoreleased during its life are released at its end.
class Pool {
 public:
  Pool() : pool_(Runtime::get()->push_pool()) {}
  ~Pool() { Runtime::get()->pop_pool(pool_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* pool_;
};

/// Owns one reference.
class Owned {
 public:
  Owned() = default;
  explicit Owned(Object object) : object_(object) {}
  Owned(Owned&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Owned& operator=(Owned&& other) noexcept {
    Object const mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) message<void>(object_, "release");
  }
  Object get() const { return object_; }

 private:
  Object object_ = nullptr;
};

}  // namespace ft::metal
