# Builds foretoken from source: brew install --HEAD ./packaging/homebrew/foretoken.rb
# Written without a Mac: its cmake lines run in an empty prefix (formula_test.py), never run by brew.
class Foretoken < Formula
  desc "Runs local language models with exact speculative decoding"
  homepage "https://github.com/foretoken/foretoken"
  license "Apache-2.0"
  head "https://github.com/foretoken/foretoken.git", branch: "main"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "node" => :build
  depends_on "pkgconf" => :build
  depends_on "rust" => :build
  depends_on "boost"
  depends_on "cli11"
  depends_on "fmt"
  depends_on macos: :sonoma
  depends_on "nlohmann-json"
  depends_on "openssl@3"
  depends_on "spdlog"
  depends_on "tomlplusplus"
  depends_on "xxhash"
  uses_from_macos "curl"
  uses_from_macos "libedit"
  uses_from_macos "sqlite"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DBUILD_TESTING=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    system bin/"foretoken", "doctor", "--json", "--no-probe"
    system bin/"foretoken", "run", "--backend", "cpu", "-q", "-p", "Hi", "-n", "8"
  end
end
