"""Fairweather: observations, forecasts and warnings, invented from the place and the day."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import cos, pi

from demo.calls import CannotDoError, UnusableValueError, clock, day
from demo.fake_data import number, pick, today
from demo.signatures import Outputs
from demo.worlds import world

WORLD = world("fairweather")
SEVERITIES = tuple(WORLD["choices"]["severities"])  # the mildest first
HAZARDS: list[str] = WORLD["records"]["hazards"]


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
    world = WORLD

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

    def get_hourly_forecast(self, city: str, hours: int, detail: str = "TEMPERATURE") -> Outputs:
        start = datetime.combine(today(), datetime.min.time()) + timedelta(hours=12)
        rows = []
        for when in (start + timedelta(hours=n) for n in range(hours)):
            forecast = sky(city, when.date(), when.hour)
            more = (
                {"wind_mph": forecast.wind_mph, "rain_chance": forecast.rain_chance}
                if detail == "FULL"
                else {}
            )
            rows.append({"at": when.isoformat(timespec="minutes"), "fahrenheit": forecast.fahrenheit, **more})
        return {"forecast": rows}

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

    def get_rain_outlook(self, city: str) -> Outputs:
        minutes = number(0, 180, city, today(), "radar")
        change = {"minutes_until_change": minutes} if minutes <= 120 else {}
        return {"raining_now": sky(city, today()).conditions == "RAIN", **change}

    def list_weather_alerts(self, state: str, minimum_severity: str = "MINOR") -> Outputs:
        ids = [f"{state.upper()}-{today():%y%j}-{n}" for n in range(number(0, 4, state, today()))]
        alerts = [
            {"alert_id": i, "severity": pick(SEVERITIES, i), "hazard": pick(HAZARDS, i, "hazard")}
            for i in ids
        ]
        severities = SEVERITIES[SEVERITIES.index(minimum_severity) :]
        alerts = sorted(
            (a for a in alerts if a["severity"] in severities), key=lambda a: -SEVERITIES.index(a["severity"])
        )
        return {"alerts": alerts, "count": len(alerts)}

    def get_weather_alert(self, alert_id: str) -> Outputs:
        if alert_id.count("-") != 2:
            raise CannotDoError("alert_not_found", f"No warning {alert_id} is in force.")
        hazard = pick(HAZARDS, alert_id, "hazard")
        return {
            "headline": f"{hazard} warning for {alert_id[:2]}",
            "severity": pick(SEVERITIES, alert_id),
            "instruction": f"Avoid travel and follow local advice while the {hazard.lower()} warning lasts.",
            "until": f"{today() + timedelta(days=1)}T06:00",
        }

    def get_air_quality(self, city: str, scale: str = "US_AQI") -> Outputs:
        share = number(4, 40, city, today(), "air")
        index = {"US_AQI": 5 * share, "CAQI": share, "AQHI": 1 + share // 5}[scale]
        advice = "Keep efforts outdoors short." if share > 20 else "No need to change plans."
        pollutant = pick(("PM2_5", "PM10", "OZONE", "NITROGEN_DIOXIDE"), city)
        return {"index": index, "main_pollutant": pollutant, "advice": advice}

    def get_pollen_forecast(self, city: str, plant: str, days: int = 3) -> Outputs:
        dates = [today() + timedelta(days=n) for n in range(days)]
        levels = [pick(("NONE", "LOW", "MEDIUM", "HIGH"), city, plant, d) for d in dates]
        return {"level_today": levels[0], "levels": levels}

    def get_uv_index(self, city: str, date: str = "") -> Outputs:
        index = number(0, 11, city, day_or_today(date, "date"), "uv")
        return {"uv_index": index, "minutes_to_sunburn": 240 // (index + 1)}

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

    def get_tide_times(self, port: str, date: str) -> Outputs:
        first = number(0, 372, port, day(date, "date"))
        minutes = [first + 373 * n for n in range(4) if first + 373 * n < 24 * 60]
        tides = [
            {"at": f"{m // 60:02}:{m % 60:02}", "feet": 9 - 8 * (n % 2), "kind": ("HIGH", "LOW")[n % 2]}
            for n, m in enumerate(minutes)
        ]
        return {"tides": tides}

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

    def get_climate_averages(self, city: str, month: int) -> Outputs:
        return {
            "mean_in_fahrenheit": sky(city, date(2010, month, 15), 9).fahrenheit,
            "days_with_rain": number(3, 16, city, month),
        }

    def count_lightning_strikes(self, city: str, radius_in_miles: int, minutes: int = 30) -> Outputs:
        if sky(city, today()).conditions != "THUNDERSTORM":
            return {"strikes": 0}
        return {
            "strikes": number(1, minutes, city, today()),
            "nearest_in_miles": number(1, radius_in_miles, city),
        }

    def get_sun_times(self, city: str, date: str = "") -> Outputs:
        when = day_or_today(date, "date")
        half_day = round(360 - 150 * cos(2 * pi * (when.timetuple().tm_yday + 10) / 365))
        noon = 12 * 60 + number(-35, 55, city)
        rise, down = noon - half_day, noon + half_day
        times = {"sunrise": rise, "sunset": down, "first_light": rise - 29}
        return {name: f"{minutes // 60:02}:{minutes % 60:02}" for name, minutes in times.items()}

    def get_moon_phase(self, date: str) -> Outputs:
        age = (day(date, "date").toordinal() - 730125) % 29.53
        lit = round(50 - 50 * cos(2 * pi * age / 29.53))
        phase = "NEW" if lit < 3 else "FULL" if lit > 97 else "WAXING" if age < 14.77 else "WANING"
        return {"phase": phase, "percent_lit": lit}

    def get_snow_report(self, ski_area: str) -> Outputs:
        base = number(0, 110, ski_area, today().month)
        fresh = number(0, 14, ski_area, today())
        return {"base_in_inches": base, "new_snow_in_inches": fresh, "lifts_open": base // 8}

    def assess_outdoor_activity(self, city: str, activity: str, date: str, time: str) -> Outputs:
        forecast = sky(city, day(date, "date"), clock(time, "time").hour)
        windy = forecast.wind_mph > {"DRONE_FLIGHT": 15, "CYCLING": 22}.get(activity, 28)
        wet = forecast.rain_chance > (30 if activity == "PAINTING_OUTDOORS" else 60)
        reason = "Too windy." if windy else "Rain is likely." if wet else "Nothing speaks against it."
        return {"advisable": not (windy or wet), "reason": reason}
