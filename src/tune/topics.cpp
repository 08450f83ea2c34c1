#include "tune/topics.h"

#include <span>
#include <string_view>
#include <vector>

#include "base/checksum.h"

namespace ft::tune {
namespace {

constexpr std::string_view kTopics =
    "rivers|volcanoes|the moon|black holes|bees|whales|owls|dinosaurs|bread|coffee|tea|cheese|tomatoes|roses|"
    "trees|deserts|glaciers|the sea|wind|light|sound|heat|magnets|electricity|batteries|solar panels|"
    "bridges|trains|bicycles|ships|rockets|satellites|telescopes|maps|clocks|the calendar|money|taxes|"
    "insurance|interest rates|small companies|marketing|meetings|remote work|teamwork|"
    "leadership|negotiation|public speaking|schools|homework|exams|languages|grammar|poetry|novels|"
    "fairy tales|libraries|museums|painting|photography|the piano|jazz|films|football|chess|swimming|"
    "yoga|sleep|vitamins|the brain|bones|vaccines|bacteria|stress|happiness|friendship|families|"
    "pets|gardens|cooking|breakfast|soup|travel|hotels|camping|mountains|Paris|Japan|Brazil|Egypt|ancient "
    "Rome|"
    "the Middle Ages|the printing press|steam engines|laws|elections|the United Nations|"
    "ice|snow|fog|clouds|thunderstorms|rainbows|the tides|rain "
    "forests|swamps|caves|islands|meteorites|Saturn|Venus|"
    "galaxies|orbits|atoms|molecules|acids|metals|diamonds|rust|rubber|concrete|cotton|silk|wool|leather|"
    "soap|ink|"
    "mirrors|lenses|microscopes|cameras|radios|television|telephones|smartphones|headphones|elevators|"
    "escalators|"
    "tunnels|lighthouses|harbours|canals|dams|windmills|tractors|buses|trams|motorcycles|balloons|submarines|"
    "parachutes|drones|traffic lights|bicycle repair|road safety|maps of the "
    "world|compasses|calculators|keyboards|"
    "printers|spam|viruses on computers|backups|the cloud|open source|version "
    "numbers|compilers|threads|queues|"
    "heaps|dynamic "
    "programming|matrices|vectors|derivatives|integrals|percentages|logarithms|averages|sets|graphs of "
    "functions|random numbers|game theory|queues in shops|auctions|budgets|pensions|loans|credit cards|rent|"
    "shopping "
    "lists|supermarkets|restaurants|pizza|noodles|rice|potatoes|apples|bananas|lemons|garlic|onions|pepper|"
    "honey|sugar|butter|eggs|ice cream|cakes|cookies|sandwiches|salads|barbecues|tea "
    "ceremonies|allergies|headaches|"
    "coughs|broken bones|first aid|doctors|nurses|dentists|glasses|hearing|the lungs|the "
    "skin|muscles|blood|hormones|"
    "dreams|memory|habits|motivation|patience|anger|fear|jealousy|kindness|humour|good manners|gifts|"
    "weddings|holidays|new year|neighbours|roommates|children|teenagers|old age|grandparents|moving to "
    "another town|cleaning|ironing|washing "
    "machines|sewing|knitting|pottery|comics|opera|drums|guitars|choirs|"
    "dancing|theatre|magic tricks|puzzles|card "
    "games|crosswords|tennis|skiing|skating|climbing|sailing|rowing|horses|"
    "cats|dogs|rabbits|hamsters|parrots|penguins|eagles|sharks|dolphins|octopuses|frogs|snakes|turtles|"
    "spiders|ants|"
    "butterflies|mosquitoes|worms|mushrooms|moss|oaks|palm trees|cactuses|sunflowers|seeds|greenhouses|farms|"
    "markets|fairs|zoos|circuses|parks|playgrounds|swimming "
    "pools|Rome|London|Berlin|Moscow|Delhi|Peru|Kenya|Norway|"
    "Iceland|Turkey|Vietnam|New Zealand|the Nile|the Alps|the Sahara|the Vikings|the Aztecs|the Silk "
    "Road|knights|"
    "pirates|samurai|castles|cathedrals|the telegraph|the first computers|the space race|the Olympic Games|"
    "newspapers|journalism|rumours|advertising|brands|patents|contracts|courts|juries|police work|fire "
    "fighters|"
    "passports|borders|embassies|treaties|monarchies|constitutions|voting|taxes on "
    "cars|trade|strikes|unions|factories|"
    "assembly lines|quality control|deadlines|checklists|to-do lists|calendars of "
    "teams|feedback|apologies|complaints|"
    "invitations|resumes|small talk|interviews with "
    "experts|essays|summaries|footnotes|metaphors|rhymes|haiku|"
    "detective stories|science fiction|ghost stories|proverbs|riddles|spelling|commas|accents|sign "
    "language|Latin|"
    "Spanish|Chinese characters|translation|prime "
    "numbers|fractions|geometry|statistics|logic|algorithms|recursion|hash tables|"
    "linked lists|binary trees|graphs|databases|SQL|Python|JavaScript|C++|Rust|Git|Linux|"
    "unit tests|debugging|regular expressions|JSON|web servers|encryption|passwords|e-mail|search engines|"
    "neural networks|robots|privacy|climate|recycling|drinking water|plastic|steel|glass|paper|salt|gold";
constexpr std::string_view kForms =
    "What is TOPIC?|Explain TOPIC in simple terms.|Explain TOPIC to a child.|Why does TOPIC matter?|"
    "Tell me something about TOPIC.|Give me five facts about TOPIC.|List ten ideas that have to do with "
    "TOPIC.|"
    "Write a short story about TOPIC.|Write a poem about TOPIC.|Write a paragraph about TOPIC.|"
    "Write a short essay on TOPIC.|What speaks for and against TOPIC?|What do people often get wrong about "
    "TOPIC?|How could I learn more about TOPIC?|How does it work: TOPIC?|What is the history of TOPIC?|"
    "Write a dialogue about TOPIC between two friends.|Write an e-mail to a colleague about TOPIC.|"
    "Ask three questions about TOPIC and answer them.|Compare TOPIC with OTHER.|What have TOPIC and OTHER in "
    "common?|Say in two sentences what is known about TOPIC.|What would the world be without TOPIC?|"
    "Suggest a title for a book about TOPIC.|Write a blog post about TOPIC.|Name the main parts of TOPIC.|"
    "Give me a guide to TOPIC, step by step.|What should a beginner know about TOPIC?|Describe TOPIC in one "
    "sentence.|Write a speech about TOPIC.|Make a table about TOPIC with three rows.|Tell me a joke about "
    "TOPIC.|Write a small program that has to do with TOPIC.|Write a JSON object that describes TOPIC.|"
    "Plan a day around TOPIC.|Invent a person who loves TOPIC.|Translate into French: I like TOPIC.|"
    "Use TOPIC and OTHER in one sentence.|Define TOPIC.|Can you recommend something to read about TOPIC?|"
    "What does TOPIC cost?|Is there any danger in TOPIC?|Help me to prepare a talk about TOPIC.|"
    "Write a quiz about TOPIC with four questions.|Summarise TOPIC as a list.|How is TOPIC different from "
    "OTHER?|"
    "Who would be interested in TOPIC, and why?|Give me a short lesson on TOPIC.|Write an HTML page about "
    "TOPIC.|"
    "Write a class in Python for a program about TOPIC.|What are three questions that I should ask about "
    "TOPIC?|"
    "Write a letter about TOPIC to a friend.|Which words belong to TOPIC?|Is TOPIC older than OTHER?|tell me "
    "about TOPIC|TOPIC in one paragraph, please.|What makes TOPIC difficult?|Write a product text for "
    "something "
    "that has to do with TOPIC.|When did people begin to care about TOPIC?|Be brief: what is TOPIC?|In "
    "detail: "
    "how does TOPIC work?";
constexpr std::string_view kTasks =
    "find the largest number of a list|count the words of a text|compute a factorial|"
    "test whether a number is prime|sort a list of numbers|merge two sorted lists|compute an average|"
    "read a CSV file|write lines to a file|parse a JSON text|fetch a web page|"
    "list the files of a folder|compute the greatest common divisor|make a random password|check an e-mail "
    "address|flatten nested lists|search in a sorted list|implement a stack|implement a "
    "queue|group words by their first letter|find the most frequent element|sum the digits of a number|print "
    "a number in binary|print a multiplication table|simulate two dice|count down from ten|format a date|"
    "split a text into sentences|replace blanks by underscores|sort a dictionary by its values|open a SQLite "
    "database|start a small web server|draw a line chart|compute a median|remove duplicates from a list";
constexpr std::string_view kTaskForms =
    "Write a Python function to TASK.|How do I TASK in Python?|Show me code to TASK and explain it.|Write a "
    "JavaScript function to TASK.|Write a C++ function to TASK.|Write a unit test for a function to TASK.|"
    "Explain how to TASK without code.|Write a shell script to TASK.|Give me pseudocode to TASK.|Write a "
    "Rust "
    "function to TASK.";

std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('|', at), text.size());
    found.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return found;
}

/// Every twelfth is held out.
std::vector<std::string_view> part_of(std::string_view text, bool held_out) {
  constexpr std::size_t kEvery = 12;
  std::vector<std::string_view> found;
  const std::vector<std::string_view> all = parts(text);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((i % kEvery == 0) == held_out) found.push_back(all[i]);
  }
  return found;
}

/// SplitMix64 (Steele, Lea and Flood 2014).
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  std::string_view of(std::span<const std::string_view> list) { return list[next() % list.size()]; }

 private:
  std::uint64_t state_;
};

void put(std::string& text, std::string_view place, std::string_view value) {
  if (const std::size_t at = text.find(place); at != std::string::npos) text.replace(at, place.size(), value);
}

}  // namespace

std::string template_prompt(std::uint64_t seed, std::int64_t index, bool held_out) {
  constexpr std::uint64_t kTasksIn = 5;  // every fifth prompt is about code
  Numbers numbers(seed * 0x100000001B3U + static_cast<std::uint64_t>(index));
  numbers.next();
  if (numbers.next() % kTasksIn == 0) {
    std::string text(numbers.of(parts(kTaskForms)));
    put(text, "TASK", numbers.of(part_of(kTasks, held_out)));
    return text;
  }
  std::string text(numbers.of(parts(kForms)));
  const std::vector<std::string_view> topics = part_of(kTopics, held_out);
  put(text, "TOPIC", numbers.of(topics));
  put(text, "OTHER", numbers.of(topics));
  return text;
}

std::string topics_identity() {
  std::string all;
  for (const std::string_view list : {kTopics, kForms, kTasks, kTaskForms}) all += list;
  return fingerprint(all);
}

}  // namespace ft::tune
