//! strftime_now: Python's strftime, limited to the directives of chat templates, on an injected clock.

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

struct Moment {
    year: i64,
    month: u32, // 1-12
    day: u32,   // 1-31
    year_day: u32,
    week_day: usize, // 0 is Monday
    second: u32,     // second of the day
}

/// Howard Hinnant's civil_from_days: days since 1970-01-01 to a proleptic Gregorian date.
fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153; // March is 0
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn moment(now_s: i64) -> Moment {
    let days = now_s.div_euclid(86_400);
    let (year, month, day) = civil(days);
    let mut new_year = days - 366;
    while civil(new_year).0 != year {
        new_year += 1;
    }
    Moment {
        year,
        month,
        day,
        year_day: (days - new_year + 1) as u32,
        week_day: (days + 3).rem_euclid(7) as usize,
        second: now_s.rem_euclid(86_400) as u32,
    }
}

/// None for a directive outside this list.
pub fn strftime(format: &str, now_s: i64) -> Option<String> {
    let m = moment(now_s);
    let (hour, minute, second) = (m.second / 3600, m.second / 60 % 60, m.second % 60);
    let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
    let month = MONTHS[m.month as usize - 1];
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next()?;
        let bare = directive == '-'; // glibc extension: no padding
        if bare {
            directive = chars.next()?;
        }
        let two = |n: u32| if bare { n.to_string() } else { format!("{n:02}") };
        let text = match directive {
            'Y' => m.year.to_string(),
            'y' => two(m.year.rem_euclid(100) as u32),
            'm' => two(m.month),
            'd' => two(m.day),
            'e' => {
                if bare {
                    m.day.to_string()
                } else {
                    format!("{:2}", m.day)
                }
            }
            'H' => two(hour),
            'I' => two(hour12),
            'M' => two(minute),
            'S' => two(second),
            'j' => {
                if bare {
                    m.year_day.to_string()
                } else {
                    format!("{:03}", m.year_day)
                }
            }
            'B' => month.to_string(),
            'b' | 'h' => month[..3].to_string(),
            'A' => DAYS[m.week_day].to_string(),
            'a' => DAYS[m.week_day][..3].to_string(),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_string(),
            'F' => format!("{}-{:02}-{:02}", m.year, m.month, m.day),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'D' => format!("{:02}/{:02}/{:02}", m.month, m.day, m.year.rem_euclid(100)),
            'R' => format!("{hour:02}:{minute:02}"),
            'u' => (m.week_day + 1).to_string(),
            'w' => ((m.week_day + 1) % 7).to_string(),
            's' => now_s.to_string(),
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            _ => return None,
        };
        out.push_str(&text);
    }
    Some(out)
}
