"""Fairweather: observations, forecasts and warnings, invented from the place and the day."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import cos, pi

from demo.calls import CannotDoError, UnusableValueError, clock, day
from demo.invented import number, pick, today
from demo.signatures import Outputs, choice, data, flag, text, tool, whole

CONDITIONS = {
    "CLEAR": "No clouds to speak of.",
    "PARTLY_CLOUDY": "Sun and clouds.",
    "OVERCAST": "Clouds everywhere.",
    "RAIN": "Rain or drizzle.",
    "SNOW": "Snow or sleet.",
    "THUNDERSTORM": "Lightning within ten miles.",
}

SEVERITIES = {
    "MINOR": "Inconvenience at most.",
    "MODERATE": "Some danger to people or property.",
    "SEVERE": "Much danger; be ready to act.",
    "EXTREME": "Act now.",
}

HAZARDS = ("Wind", "Flood", "Heat", "Winter storm", "Fog", "Thunderstorm")


@dataclass(frozen=True, slots=True)
class Sky:
    fahrenheit: int
    conditions: str
    rain_chance: int
    wind_mph: int


def sky(place: str, when: date, hour: int = 14) -> Sky:
    """Warm in July, coldest before dawn, a little different everywhere and every day."""
    season = -cos(2 * pi * (when.timetuple().tm_yday - 20) / 365)
    daylight = -cos(2 * pi * (hour - 3) / 24)
    climate, whim = number(38, 66, place), number(-8, 8, place, when)
    fahrenheit = round(climate + 22 * season + 9 * daylight + whim)
    rain_chance = number(0, 100, place, when, hour // 6)
    wet = "SNOW" if fahrenheit < 33 else "THUNDERSTORM" if rain_chance > 92 else "RAIN"
    dry = "OVERCAST" if rain_chance > 45 else "PARTLY_CLOUDY" if rain_chance > 25 else "CLEAR"
    return Sky(
        fahrenheit, wet if rain_chance > 65 else dry, rain_chance, number(0, 31, place, when, hour, "wind")
    )


def day_or_today(value: str, key: str) -> date:
    return day(value, key) if value else today()


class Fairweather:
    @tool(
        "05350549-1dd9-4292-abde-e698baf16581",
        "Weather at this moment.",
        reworded={3: "Weather at this moment in a city, from the nearest station; at most ten minutes old."},
        tags=("now",),
        inputs=(
            text("City", 'City and state or country, for instance "Omaha, Nebraska".'),
            flag("Include station", "Also name the station that measured.", optional=True, since=2),
        ),
        outputs=(
            whole("Temperature in Fahrenheit", "Air temperature at two metres."),
            choice("Conditions", "The sky in one word.", CONDITIONS),
            whole("Wind in mph", "Ten-minute mean."),
            text("Station", "Only if it was asked for.", since=2),
            whole("Feels like in Fahrenheit", "Wind chill or heat index.", since=3),
        ),
    )
    def lookup_current_weather(self, city: str, include_station: bool = False) -> Outputs:
        now = sky(city, today())
        station = (
            {"station": f"K{pick(('OMA', 'LNK', 'DSM', 'MCI', 'ORD', 'DEN'), city)}"}
            if include_station
            else {}
        )
        return {
            "temperature_in_fahrenheit": now.fahrenheit,
            "conditions": now.conditions,
            "wind_in_mph": now.wind_mph,
            "feels_like_in_fahrenheit": now.fahrenheit - now.wind_mph // 4,
            **station,
        }

    @tool(
        "8bc9f86c-47a1-4ca9-9476-500a8523542c",
        "Forecast hour by hour for up to two days. For anything further away use get_daily_forecast: hourly "
        "values lose their meaning after 48 hours.",
        tags=("forecast",),
        inputs=(
            text("City"),
            whole("Hours", "How many hours from now.", low=1, high=48),
            choice(
                "Detail",
                "How much to say about each hour. TEMPERATURE if left out.",
                {"TEMPERATURE": "Temperature alone.", "FULL": "Wind and chance of rain as well."},
                optional=True,
                since=2,
            ),
        ),
        outputs=(data("Forecast", "One entry for each hour, in order."),),
    )
    def get_hourly_forecast(self, city: str, hours: int, detail: str = "TEMPERATURE") -> Outputs:
        start = datetime.combine(today(), datetime.min.time()) + timedelta(hours=12)
        rows = []
        for when in (start + timedelta(hours=n) for n in range(hours)):
            at = sky(city, when.date(), when.hour)
            more = {"wind_mph": at.wind_mph, "rain_chance": at.rain_chance} if detail == "FULL" else {}
            rows.append({"at": when.isoformat(timespec="minutes"), "fahrenheit": at.fahrenheit, **more})
        return {"forecast": rows}

    @tool(
        "feec0a6c-7d49-4071-887e-4fda77e1cc5a",
        "Daily forecast, up to fourteen days.",
        tags=("forecast",),
        inputs=(
            text("City"),
            whole("Days", "Today counts as the first.", low=1, high=14),
            choice(
                "Units",
                "",
                {"FAHRENHEIT": "", "CELSIUS": ""},
                optional=True,
                since=2,
            ),
        ),
        outputs=(data("Forecast"), text("Summary", "One sentence for reading aloud.")),
    )
    def get_daily_forecast(self, city: str, days: int, units: str = "FAHRENHEIT") -> Outputs:
        def degrees(fahrenheit: int) -> int:
            return fahrenheit if units == "FAHRENHEIT" else round((fahrenheit - 32) / 1.8)

        dates = [today() + timedelta(days=n) for n in range(days)]
        rows = [
            {
                "date": str(d),
                "high": degrees(sky(city, d).fahrenheit),
                "low": degrees(sky(city, d, 4).fahrenheit),
                "conditions": sky(city, d).conditions,
            }
            for d in dates
        ]
        conditions = sky(city, today()).conditions.replace("_", " ").lower()
        summary = f"{city}: high of {rows[0]['high']} today, {conditions}."
        return {"forecast": rows, "summary": summary}

    @tool(
        "8443e5ca-aebf-4ae2-9dd8-cea16ea2e2a6",
        "Says when it will start or stop raining, from radar, for the next two hours.",
        tags=("now", "forecast", "rain"),
        inputs=(text("City"),),
        outputs=(
            flag("Raining now"),
            whole("Minutes until change", "Absent if nothing changes within two hours."),
        ),
    )
    def get_rain_outlook(self, city: str) -> Outputs:
        minutes = number(0, 180, city, today(), "radar")
        change = {"minutes_until_change": minutes} if minutes <= 120 else {}
        return {"raining_now": sky(city, today()).conditions == "RAIN", **change}

    @tool(
        "e6667249-8705-4fd0-b85c-468c202f12cb",
        "Weather warnings in force for a state or province.",
        tags=("alerts",),
        inputs=(
            text("State", "Two letters."),
            choice("Minimum severity", "Leave out the ones below it.", SEVERITIES, optional=True),
        ),
        outputs=(data("Alerts", "Most severe first."), whole("Count", since=2)),
    )
    def list_weather_alerts(self, state: str, minimum_severity: str = "MINOR") -> Outputs:
        ranks = list(SEVERITIES)
        ids = [f"{state.upper()}-{today():%y%j}-{n}" for n in range(number(0, 4, state, today()))]
        alerts = [
            {"alert_id": i, "severity": pick(ranks, i), "hazard": pick(HAZARDS, i, "hazard")} for i in ids
        ]
        wanted = ranks[ranks.index(minimum_severity) :]
        alerts = sorted(
            (a for a in alerts if a["severity"] in wanted), key=lambda a: -ranks.index(a["severity"])
        )
        return {"alerts": alerts, "count": len(alerts)}

    @tool(
        "9e37ecf2-1d46-4c27-b5a9-efb40127ff52",
        "Full text of one warning, with what to do.",
        tags=("alerts",),
        inputs=(text("Alert id", "From list_weather_alerts."),),
        outputs=(
            text("Headline"),
            choice("Severity", "", SEVERITIES),
            text("Instruction", "What the weather service tells people to do."),
            text("Until", "When it ends, unless it is extended."),
        ),
    )
    def get_weather_alert(self, alert_id: str) -> Outputs:
        if alert_id.count("-") != 2:
            raise CannotDoError("alert_not_found", f"No warning {alert_id} is in force.")
        hazard = pick(HAZARDS, alert_id, "hazard")
        return {
            "headline": f"{hazard} warning for {alert_id[:2]}",
            "severity": pick(tuple(SEVERITIES), alert_id),
            "instruction": f"Avoid travel and follow local advice while the {hazard.lower()} warning lasts.",
            "until": f"{today() + timedelta(days=1)}T06:00",
        }

    @tool(
        "a318b4e9-1a73-4d67-a4df-3eb301835307",
        "Air quality index and the pollutant behind it.",
        tags=("air", "health"),
        inputs=(
            text("City"),
            choice(
                "Scale",
                "Which country's index. US_AQI if left out.",
                {"US_AQI": "0 to 500, United States.", "CAQI": "0 to 100, Europe."},
                widened={2: {"AQHI": "1 to 10, Canada."}},
                optional=True,
            ),
        ),
        outputs=(
            whole("Index"),
            choice(
                "Main pollutant",
                "",
                {
                    "PM2_5": "Fine particles.",
                    "PM10": "Coarse particles.",
                    "OZONE": "",
                    "NITROGEN_DIOXIDE": "",
                },
            ),
            text("Advice", "For people with asthma or heart disease.", since=3),
        ),
    )
    def get_air_quality(self, city: str, scale: str = "US_AQI") -> Outputs:
        share = number(4, 40, city, today(), "air")
        index = {"US_AQI": 5 * share, "CAQI": share, "AQHI": 1 + share // 5}[scale]
        advice = "Keep efforts outdoors short." if share > 20 else "No need to change plans."
        pollutant = pick(("PM2_5", "PM10", "OZONE", "NITROGEN_DIOXIDE"), city)
        return {"index": index, "main_pollutant": pollutant, "advice": advice}

    @tool(
        "c254844f-8e5d-4ff1-be81-492342903765",
        "Pollen for today and the next days, by plant. Counts come from traps in the larger cities and are "
        "filled in by a model elsewhere, so between towns they are an estimate. The level is what allergy "
        "sufferers feel: HIGH means that most of them have symptoms without medicine.",
        tags=("air", "health", "forecast"),
        inputs=(
            text("City"),
            choice(
                "Plant",
                "",
                {
                    "GRASS": "Timothy, rye and others.",
                    "TREE": "Birch, oak, cedar.",
                    "WEED": "Ragweed, mugwort.",
                },
                widened={2: {"MOLD": "Spores, strictly speaking not pollen."}},
            ),
            whole("Days", low=1, high=5, optional=True),
        ),
        outputs=(
            choice("Level today", "", {"NONE": "", "LOW": "", "MEDIUM": "", "HIGH": ""}),
            data("Levels", "Level for each day, in order."),
        ),
    )
    def get_pollen_forecast(self, city: str, plant: str, days: int = 3) -> Outputs:
        dates = [today() + timedelta(days=n) for n in range(days)]
        levels = [pick(("NONE", "LOW", "MEDIUM", "HIGH"), city, plant, d) for d in dates]
        return {"level_today": levels[0], "levels": levels}

    @tool(
        "7828d680-bf91-4b89-8d2c-f7a11741479a",
        "UV index at noon and how long unprotected skin may be in the sun.",
        tags=("health", "sun"),
        inputs=(text("City"), text("Date", "YYYY-MM-DD; today if left out.", optional=True)),
        outputs=(whole("UV index"), whole("Minutes to sunburn", "For fair skin.")),
    )
    def get_uv_index(self, city: str, date: str = "") -> Outputs:
        index = number(0, 11, city, day_or_today(date, "date"), "uv")
        return {"uv_index": index, "minutes_to_sunburn": 240 // (index + 1)}

    @tool(
        "eac40e58-7863-4fe2-aafc-5b87f9078bb4",
        "Marine forecast for coastal waters: wind, waves, visibility. Not for navigation.",
        tags=("marine", "forecast"),
        inputs=(
            text("Waters", 'A bay, strait or stretch of coast, for instance "Casco Bay".'),
            whole("Days", low=1, high=7, optional=True),
        ),
        outputs=(
            whole("Wind in knots"),
            whole("Wave height in feet"),
            whole("Visibility in miles"),
            flag("Small craft advisory", "Small boats should stay in port."),
            data("Outlook", "One entry for each day.", since=2),
        ),
    )
    def get_marine_forecast(self, waters: str, days: int = 1) -> Outputs:
        dates = [today() + timedelta(days=n) for n in range(days)]
        winds = [number(4, 34, waters, d) for d in dates]
        rows = [
            {"date": str(d), "wind_knots": w, "waves_feet": w // 4} for d, w in zip(dates, winds, strict=True)
        ]
        return {
            "wind_in_knots": winds[0],
            "wave_height_in_feet": winds[0] // 4,
            "visibility_in_miles": number(1, 12, waters, today(), "haze"),
            "small_craft_advisory": winds[0] >= 22,
            "outlook": rows,
        }

    @tool(
        "9ebb2887-2c45-45a3-b0ea-a92bea560718",
        "High and low tides of a day.",
        tags=("marine",),
        inputs=(text("Port"), text("Date")),
        outputs=(data("Tides", "Time, height in feet, HIGH or LOW."),),
    )
    def get_tide_times(self, port: str, date: str) -> Outputs:
        first = number(0, 372, port, day(date, "date"))
        minutes = [first + 373 * n for n in range(4) if first + 373 * n < 24 * 60]
        tides = [
            {"at": f"{m // 60:02}:{m % 60:02}", "feet": 9 - 8 * (n % 2), "kind": ("HIGH", "LOW")[n % 2]}
            for n, m in enumerate(minutes)
        ]
        return {"tides": tides}

    @tool(
        "2637123d-3aa7-46a6-b158-749fb7e35ba7",
        "What the weather was on a past day, back to 1940.",
        tags=("history",),
        inputs=(text("City"), text("Date", "YYYY-MM-DD, before today.")),
        outputs=(
            whole("High in Fahrenheit"),
            whole("Low in Fahrenheit"),
            choice("Conditions", "Most of the day.", CONDITIONS),
            whole("Rainfall in hundredths of an inch", since=2),
        ),
    )
    def get_historical_weather(self, city: str, date: str) -> Outputs:
        when = day(date, "date")
        if when.year < 1940 or when >= today():
            raise UnusableValueError("date", "must be from 1940 on and before today")
        noon = sky(city, when)
        return {
            "high_in_fahrenheit": noon.fahrenheit,
            "low_in_fahrenheit": sky(city, when, 4).fahrenheit,
            "conditions": noon.conditions,
            "rainfall_in_hundredths_of_an_inch": max(0, noon.rain_chance - 65) * 4,
        }

    @tool(
        "2e33b901-103d-4a39-87cb-5222f87fa824",
        "Thirty-year averages for a month.",
        tags=("history",),
        inputs=(text("City"), whole("Month", "1 is January.", low=1, high=12)),
        outputs=(whole("Mean in Fahrenheit"), whole("Days with rain")),
    )
    def get_climate_averages(self, city: str, month: int) -> Outputs:
        return {
            "mean_in_fahrenheit": sky(city, date(2010, month, 15), 9).fahrenheit,
            "days_with_rain": number(3, 16, city, month),
        }

    @tool(
        "55da9320-089f-489c-a2ba-e2ec0bee5d7d",
        "Lightning strikes near a place in the last minutes.",
        tags=("now", "lightning"),
        inputs=(
            text("City"),
            whole("Radius in miles", low=1, high=100),
            whole("Minutes", "How far to look back; 30 if left out.", low=5, high=120, optional=True),
        ),
        outputs=(whole("Strikes"), whole("Nearest in miles", "Absent if there were none.")),
    )
    def count_lightning_strikes(self, city: str, radius_in_miles: int, minutes: int = 30) -> Outputs:
        if sky(city, today()).conditions != "THUNDERSTORM":
            return {"strikes": 0}
        return {
            "strikes": number(1, minutes, city, today()),
            "nearest_in_miles": number(1, radius_in_miles, city),
        }

    @tool(
        "0c64a9c5-e04a-4fb7-acb0-62be3c86a9e4",
        "Sunrise, sunset and twilight.",
        tags=("sun",),
        inputs=(text("City"), text("Date", "YYYY-MM-DD; today if left out.", optional=True)),
        outputs=(
            text("Sunrise", "HH:MM, local time"),
            text("Sunset"),
            text("First light", "Civil twilight.", since=2),
        ),
    )
    def get_sun_times(self, city: str, date: str = "") -> Outputs:
        when = day_or_today(date, "date")
        half_day = round(360 - 150 * cos(2 * pi * (when.timetuple().tm_yday + 10) / 365))
        noon = 12 * 60 + number(-35, 55, city)
        rise, down = noon - half_day, noon + half_day
        times = {"sunrise": rise, "sunset": down, "first_light": rise - 29}
        return {name: f"{minutes // 60:02}:{minutes % 60:02}" for name, minutes in times.items()}

    @tool(
        "b020274d-b79f-48b4-93b3-bf1dcc9bd28a",
        "Moon phase.",
        tags=("sun",),
        inputs=(text("Date"),),
        outputs=(
            choice(
                "Phase",
                "",
                {"NEW": "", "WAXING": "Growing.", "FULL": "", "WANING": "Shrinking."},
            ),
            whole("Percent lit"),
        ),
    )
    def get_moon_phase(self, date: str) -> Outputs:
        age = (day(date, "date").toordinal() - 730125) % 29.53
        lit = round(50 - 50 * cos(2 * pi * age / 29.53))
        phase = "NEW" if lit < 3 else "FULL" if lit > 97 else "WAXING" if age < 14.77 else "WANING"
        return {"phase": phase, "percent_lit": lit}

    @tool(
        "42ec2e7a-800f-40c8-8fa6-20fcc4e8361f",
        "Snow depth, new snow and open lifts of a ski area.",
        tags=("snow",),
        inputs=(text("Ski area"),),
        outputs=(
            whole("Base in inches"),
            whole("New snow in inches", "Since yesterday 4 pm."),
            whole("Lifts open"),
        ),
    )
    def get_snow_report(self, ski_area: str) -> Outputs:
        base = number(0, 110, ski_area, today().month)
        fresh = number(0, 14, ski_area, today())
        return {"base_in_inches": base, "new_snow_in_inches": fresh, "lifts_open": base // 8}

    @tool(
        "dd1b5670-b942-4f29-8f68-7b47633af2ac",
        "Tells whether a time of day is fit for an activity outdoors, and why not if it is not. Looks at "
        "temperature, wind, rain and lightning with thresholds that suit the activity.",
        tags=("forecast", "advice"),
        inputs=(
            text("City"),
            choice(
                "Activity",
                "",
                {
                    "RUNNING": "",
                    "CYCLING": "",
                    "PICNIC": "",
                    "PAINTING_OUTDOORS": "Needs six dry hours afterwards.",
                },
                widened={2: {"DRONE_FLIGHT": "Sensitive to wind."}},
            ),
            text("Date", "YYYY-MM-DD"),
            text("Time", "HH:MM"),
        ),
        outputs=(flag("Advisable"), text("Reason")),
    )
    def assess_outdoor_activity(self, city: str, activity: str, date: str, time: str) -> Outputs:
        at = sky(city, day(date, "date"), clock(time, "time").hour)
        windy = at.wind_mph > {"DRONE_FLIGHT": 15, "CYCLING": 22}.get(activity, 28)
        wet = at.rain_chance > (30 if activity == "PAINTING_OUTDOORS" else 60)
        reason = "Too windy." if windy else "Rain is likely." if wet else "Nothing speaks against it."
        return {"advisable": not (windy or wet), "reason": reason}
