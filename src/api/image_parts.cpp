#include "api/image_parts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/base64.h"
#include "api/fields.h"
#include "base/ascii.h"
#include "base/heavy_work.h"

namespace ft::api {
namespace {

Error at_part(const std::string& at, const Error& error) {
  return Error{error.code, fmt::format("{}: {}", at, error.message), at};
}

bool is_web_address(std::string_view url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

Json canonical(std::string url, const std::string& path, const std::string& detail) {
  return Json{{"type", "image"}, {"url", std::move(url)}, {"at", path}, {"detail", detail}};
}

Result<Json> of_url(const std::string& url, const std::string& at, const std::string& path,
                    const std::string& detail) {
  if (is_web_address(url)) return canonical(url, at, detail);
  if (!lower(std::string_view(url).substr(0, 5)).starts_with("data:")) {
    return wrong(at, "must be a data URI such as data:image/png;base64,...");
  }
  return canonical(url, path, detail);
}

Result<std::string> fetched(const ImageInput& input, const std::string& url) {
  if (!input.fetch) {
    return Error{Code::kUnsupported,
                 "images are not fetched from other servers, unless foretoken serve runs with --image-urls; "
                 "send the image itself as a data URI (data:image/png;base64,...)"};
  }
  begin_heavy_work(HeavyWork::kFetch);
  Result<std::string> file = input.fetch(url);
  if (file.ok()) return file;
  const Error& error = file.error();
  return Error{error.code,
               fmt::format("the image was not fetched: {}; send it as a data URI", error.message)};
}

/// The bytes of a data URI in base64, whose characters may be escaped as in any URI.
Result<std::string> bytes_of(std::string_view url) {
  const std::size_t comma = url.find(',');
  if (comma == std::string_view::npos || !lower(url.substr(0, comma)).ends_with(";base64")) {
    return Error{Code::kInvalid, "must be a data URI in base64, such as data:image/png;base64,..."};
  }
  const std::string_view data = url.substr(comma + 1);
  if (data.find('%') == std::string_view::npos) return decode_base64(data);
  return decode_base64(percent_decoded(data));
}

}  // namespace

Result<Json> read_openai_image(const Json& part, const std::string& path) {
  const Fields fields(part, path);
  const Json* given = fields.find("image_url");
  if (given == nullptr && fields.find("file_id") != nullptr) {
    return Error{
        Code::kUnsupported,
        fmt::format("{}: this server stores no files; send the image as a data URI", fields.at("file_id")),
        fields.at("file_id")};
  }
  if (given == nullptr) return wrong(fields.at("image_url"), "is missing");
  const bool nested = given->is_object();
  const Fields inner(nested ? *given : part, nested ? fields.at("image_url") : path);
  FT_ASSIGN(const auto url, inner.text(nested ? "url" : "image_url"));
  if (!url) return wrong(inner.at("url"), "is missing");
  FT_ASSIGN(const auto detail, inner.word("detail", {"auto", "low", "high", "original"}));
  return of_url(*url, inner.at(nested ? "url" : "image_url"), path, detail.value_or("auto"));
}

Result<Json> read_anthropic_image(const Json& block, const std::string& path) {
  const Fields fields(block, path);
  FT_ASSIGN(const Json* source, fields.object("source"));
  if (source == nullptr) return wrong(fields.at("source"), "is missing");
  const Fields inner(*source, fields.at("source"));
  FT_ASSIGN(const auto type, inner.word("type", {"base64", "url", "file"}));
  if (!type) return wrong(inner.at("type"), "is missing; use base64");
  if (*type == "url") {
    FT_ASSIGN(const auto url, inner.text("url"));
    return of_url(url.value_or(""), inner.at("url"), path, "auto");
  }
  if (*type == "file") {
    return Error{Code::kUnsupported,
                 fmt::format("{}: this server stores no files; send the image in base64", inner.at("type")),
                 inner.at("type")};
  }
  FT_ASSIGN(const auto media, inner.text("media_type"));
  FT_ASSIGN(const auto data, inner.text("data"));
  if (!data) return wrong(inner.at("data"), "is missing");
  return canonical(fmt::format("data:{};base64,{}", media.value_or("image/png"), *data), path, "auto");
}

Json image_part(std::string_view file, const std::string& at) {
  return canonical("data:application/octet-stream;base64," + encode_base64(file), at, "auto");
}

Result<std::vector<GivenImage>> take_images(Json& messages) {
  std::vector<GivenImage> images;
  if (!messages.is_array()) return images;
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("content") || !message["content"].is_array()) continue;
    const bool may = message.contains("role") && (message["role"] == "user" || message["role"] == "tool");
    for (Json& part : message["content"]) {
      if (!part.is_object() || !part.contains("type") || part["type"] != "image" || !part.contains("url"))
        continue;
      GivenImage image{part.value("url", ""), part.value("at", ""), part.value("detail", "") == "low"};
      if (!may) {
        return Error{Code::kInvalid,
                     fmt::format("{}: only users' messages and tool results may have images", image.at),
                     image.at};
      }
      images.push_back(std::move(image));
      part = Json{{"type", "image"}};
    }
  }
  return images;
}

Result<Pictures> load_images(const ImageInput& input, const std::vector<GivenImage>& given) {
  Pictures pictures;
  if (given.size() > kMaxImages) {
    const std::string& at = given[kMaxImages].at;
    return wrong(at, fmt::format("a request may have {} images, found {}", kMaxImages, given.size()));
  }
  std::size_t remote = 0;
  for (const GivenImage& image : given) {
    if (!input.problem.empty()) {
      return Error{Code::kUnsupported,
                   fmt::format("{}: {}; send the content without the image", image.at, input.problem),
                   image.at};
    }
    const bool web = is_web_address(image.url);
    if (web && ++remote > kMaxFetchedImages) {
      return wrong(image.at, fmt::format("a request may name {} images by their address; send the others as "
                                         "data URIs",
                                         kMaxFetchedImages));
    }
    const Result<std::string> file = web ? fetched(input, image.url) : bytes_of(image.url);
    if (!file.ok()) return at_part(image.at, file.error());
    auto picture = load_image(input, *file, image.low_detail);
    if (!picture.ok()) return at_part(image.at, picture.error());
    pictures.push_back(std::move(*picture));
  }
  return pictures;
}

}  // namespace ft::api
